package enforce_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// errorRoute returns a handler that answers an error with a page, like the error routes of a
// subroute.
func errorRoute(status int) caddyhttp.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		new(caddyhttp.HTTPErrorConfig).WithError(r, caddyhttp.Error(status, nil))
		w.WriteHeader(http.StatusOK)
		return nil
	}
}

// byHold returns two handlers that count statuses, one with hold and one without.
func byHold(t *testing.T, amount int64, statuses ...int) map[bool]*enforce.Handler {
	return map[bool]*enforce.Handler{true: handlertest.Counting(t, amount, true, statuses...), false: handlertest.Counting(t, amount, false, statuses...)}
}

// Some software answers right and wrong passwords with the same status, but different header
// fields.
func TestAnswersThatCountByMoreThanTheirStatus(t *testing.T) {
	const login, app = "/index.php/login?user=ann", "/index.php/apps/files"
	answer := func(status int, fields ...string) caddyhttp.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) error {
			for i := 0; i < len(fields); i += 2 {
				w.Header().Set(fields[i], fields[i+1])
			}
			w.WriteHeader(status)
			return nil
		}
	}
	for name, test := range map[string]struct {
		config.Count
		next   caddyhttp.HandlerFunc
		counts bool
	}{
		"location":               {config.Count{When: []config.Answer{{Status: []int{303}, Header: map[string][]string{"location": {"*/login*"}}}}}, answer(303, "Location", login), true},
		"another location":       {config.Count{When: []config.Answer{{Status: []int{303}, Header: map[string][]string{"location": {"*/login*"}}}}}, answer(303, "Location", app), false},
		"another status":         {config.Count{When: []config.Answer{{Status: []int{303}, Header: map[string][]string{"location": {"*/login*"}}}}}, answer(302, "Location", login), false},
		"no such field":          {config.Count{When: []config.Answer{{Header: map[string][]string{"Location": nil}}}}, answer(200), true},
		"with that field":        {config.Count{When: []config.Answer{{Header: map[string][]string{"Location": nil}}}}, answer(200, "Location", app), false},
		"any value":              {config.Count{When: []config.Answer{{Header: map[string][]string{"X-Failed": {}}}}}, answer(200, "X-Failed", "yes"), true},
		"one of two values":      {config.Count{When: []config.Answer{{Header: map[string][]string{"X-Failed": {"a", "b"}}}}}, answer(200, "X-Failed", "b"), true},
		"one of two answers":     {config.Count{When: []config.Answer{{Status: []int{4}}, {Status: []int{303}}}}, answer(303), true},
		"a status beside":        {config.Count{Status: []int{401}, When: []config.Answer{{Status: []int{303}}}}, answer(401), true},
		"small":                  {config.Count{When: []config.Answer{{MaxSize: 100}}}, answer(200, "Content-Length", "100"), true},
		"too large":              {config.Count{When: []config.Answer{{MaxSize: 100}}}, answer(200, "Content-Length", "101"), false},
		"large":                  {config.Count{When: []config.Answer{{MinSize: 100}}}, answer(200, "Content-Length", "100"), true},
		"too small":              {config.Count{When: []config.Answer{{MinSize: 100}}}, answer(200, "Content-Length", "99"), false},
		"of a length not known":  {config.Count{When: []config.Answer{{MaxSize: 100}}}, answer(200), true}, // else Accept-Encoding would choose
		"too long or not known":  {config.Count{When: []config.Answer{{MinSize: 100}}}, answer(200), true},
		"nor any other answer":   {config.Count{When: []config.Answer{{Status: []int{401}, MaxSize: 100}}}, answer(200), false},
		"of an error":            {config.Count{When: []config.Answer{{Status: []int{401}}}}, handlertest.Failing(caddyhttp.Error(401, nil)), true},
		"a field of an error":    {config.Count{When: []config.Answer{{Header: map[string][]string{"X-Failed": {}}}}}, handlertest.Failing(caddyhttp.Error(401, nil)), false},
		"only what comes first":  {config.Count{When: []config.Answer{{Status: []int{303}}}}, handlertest.Answering(200, 303), false},
		"not what comes earlier": {config.Count{When: []config.Answer{{Status: []int{303}}}}, handlertest.Answering(103, 303), true},
	} {
		for _, hold := range []bool{false, true} {
			count := test.Count
			count.Hold = hold
			h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{
				Name: "z", Limits: []config.Limit{{Amount: 1, Window: hour}}, Count: &count,
			}}})
			if _, err := handlertest.Ask(context.Background(), h, test.next); err != nil && !errors.As(err, new(caddyhttp.HandlerError)) {
				t.Fatal(err)
			}
			w, err := handlertest.Ask(context.Background(), h, handlertest.Answering(200))
			if refused := err != nil || w.Code == http.StatusTooManyRequests; refused != test.counts {
				t.Errorf("%s, hold %t: got refused %t, want %t", name, hold, refused, test.counts)
			}
		}
	}
}

func TestWhatCountsByStatus(t *testing.T) {
	handlers, client := byHold(t, 2, 401, 403), netip.MustParseAddr("192.0.2.1")
	panics := func(err error) caddyhttp.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) error { panic(err) }
	}
	for name, test := range map[string]struct {
		next   caddyhttp.HandlerFunc
		leaves bool // the client leaves first
		counts bool // if the client left, only with hold
	}{
		"written":                 {next: handlertest.Answering(401), counts: true},
		"written, another":        {next: handlertest.Answering(200)},
		"of a class":              {next: handlertest.Answering(404)},
		"after hints":             {next: handlertest.Answering(103, 103, 401), counts: true},
		"after hints, another":    {next: handlertest.Answering(103, 200)},
		"only the first":          {next: handlertest.Answering(200, 401)},
		"upgraded":                {next: handlertest.Answering(101)},
		"of a returned error":     {next: handlertest.Failing(caddyhttp.Error(401, nil)), counts: true},
		"of another error":        {next: handlertest.Failing(caddyhttp.Error(502, nil))},
		"of a wrapped error":      {next: handlertest.Failing(errors.Join(errors.New("no"), caddyhttp.Error(401, nil))), counts: true},
		"of an error without one": {next: handlertest.Failing(errors.New("no")), counts: false},
		"nothing written":         {next: handlertest.Answering()},
		"nothing but a body":      {next: func(w http.ResponseWriter, _ *http.Request) error { _, err := w.Write([]byte("x")); return err }},
		"an error after the status": {next: func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusOK)
			return caddyhttp.Error(401, nil)
		}},
		"an error route answers":     {next: errorRoute(401), counts: true},
		"an error route, of another": {next: errorRoute(502)},
		"left, an error route":       {next: errorRoute(499), leaves: true, counts: true},
		"panics":                     {next: panics(errors.New("no"))},
		"aborts":                     {next: panics(http.ErrAbortHandler)},
		"panics after the status": {next: func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusUnauthorized)
			panic("no")
		}, counts: true},
		"left, and panics":            {next: panics(errors.New("no")), leaves: true, counts: true},
		"left, and aborts":            {next: panics(http.ErrAbortHandler), leaves: true, counts: true},
		"left":                        {next: handlertest.Failing(caddyhttp.Error(499, nil)), leaves: true, counts: true},
		"left, as reverse_proxy says": {next: handlertest.Answering(499), leaves: true, counts: true},
		"left, and answered":          {next: handlertest.Answering(200), leaves: true},
		"left, and nothing returned":  {next: handlertest.Answering(), leaves: true, counts: true},
		"read from": {next: func(w http.ResponseWriter, _ *http.Request) error {
			_, err := (&caddyhttp.ResponseWriterWrapper{ResponseWriter: w}).ReadFrom(strings.NewReader("x"))
			return err
		}},
	} {
		client = client.Next()
		for hold, h := range handlers {
			ctx, leave := context.WithCancel(context.Background())
			func() {
				defer func() { recover() }()
				handlertest.AskAs(ctx, h, client.String(), nil, func(w http.ResponseWriter, r *http.Request) error {
					if test.leaves {
						leave()
					}
					return test.next(w, r)
				})
			}()
			leave()
			want := 2
			if test.counts && (hold || !test.leaves) {
				want = 1
			}
			if passed := handlertest.PassedAs(h, client.String(), 5); passed != want {
				t.Errorf("%s, hold %v: %d passed afterwards, want %d", name, hold, passed, want)
			}
		}
	}
}

// A client that breaks off its body counts as gone, in every form. A failing upstream closes the
// body, which isn't the client's fault.
func TestBodiesThatCannotBeRead(t *testing.T) {
	read := func(w http.ResponseWriter, r *http.Request) error {
		_, err := io.ReadAll(r.Body)
		return caddyhttp.Error(http.StatusBadGateway, err)
	}
	unreadable := iotest.ErrReader(os.ErrDeadlineExceeded)
	handlers := map[int]map[bool]*enforce.Handler{401: byHold(t, 1, 401), 4: byHold(t, 1, 4), 499: byHold(t, 1, 499)}
	client := netip.MustParseAddr("192.0.2.1")
	for name, test := range map[string]struct {
		then   io.Reader // rest of the body, after a guess
		next   caddyhttp.HandlerFunc
		counts bool // with hold
	}{
		"read":       {nil, read, false},
		"times out":  {unreadable, read, true},
		"breaks off": {iotest.ErrReader(io.ErrUnexpectedEOF), read, true},
		"breaks off, answered": {unreadable, func(w http.ResponseWriter, r *http.Request) error {
			io.ReadAll(r.Body)
			return handlertest.Answering(502)(w, r)
		}, true},
		"breaks off, panics": {unreadable, func(w http.ResponseWriter, r *http.Request) error {
			io.ReadAll(r.Body)
			panic(http.ErrAbortHandler)
		}, true},
		"too long for a later handler": {nil, func(w http.ResponseWriter, r *http.Request) error {
			r.Body = http.MaxBytesReader(w, r.Body, 2)
			return read(w, r)
		}, true},
		"too long, and nothing is read": {nil, handlertest.Failing(caddyhttp.Error(502, new(http.MaxBytesError))), false},
		"not read":                      {unreadable, handlertest.Failing(errors.New("no upstream")), false},
		"closed":                        {unreadable, func(w http.ResponseWriter, r *http.Request) error { r.Body.Close(); return read(w, r) }, false},
	} {
		client = client.Next()
		for status, counts := range map[int]bool{401: false, 4: test.counts, 499: test.counts} {
			for hold, h := range handlers[status] {
				var body io.Reader = strings.NewReader("guess")
				if test.then != nil {
					body = io.MultiReader(body, test.then)
				}
				func() {
					defer func() { recover() }()
					handlertest.AskAs(context.Background(), h, client.String(), body, test.next)
				}()
				w, err := handlertest.AskAs(context.Background(), h, client.String(), nil, handlertest.Answering(200))
				if want := !counts && !(hold && test.counts); err != nil || w.Code == 200 != want {
					t.Errorf("%s, count status %d, hold %v: the next is answered with %d, %v", name, status, hold, w.Code, err)
				}
			}
		}
	}
}

// A streamed answer is settled when its status is known, and a hijacked connection when it is
// hijacked.
func TestStatusIsKnownEarly(t *testing.T) {
	for name, begin := range map[string]func(w http.ResponseWriter) error{
		"header":   func(w http.ResponseWriter) error { w.WriteHeader(http.StatusOK); return nil },
		"body":     func(w http.ResponseWriter) error { _, err := w.Write([]byte("x")); return err },
		"flushed":  func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() },
		"hijacked": func(w http.ResponseWriter) error { _, _, err := http.NewResponseController(w).Hijack(); return err },
	} {
		h := handlertest.Counting(t, 1, true, 401)
		during := 0
		handlertest.Ask(context.Background(), h, func(w http.ResponseWriter, _ *http.Request) error {
			if passed := handlertest.PassedOf(h, 1); passed != 0 {
				t.Errorf("%s: another passed before the status was known", name)
			}
			if err := begin(w); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			during = handlertest.PassedOf(h, 3)
			return nil
		})
		if during != 1 {
			t.Errorf("%s: %d passed while the answer was being written, want 1", name, during)
		}
	}
}

// Of many simultaneous wrong passwords, exactly as many as the limit reach the handler that checks
// them.
func TestHeldBurst(t *testing.T) {
	h := handlertest.Counting(t, 5, true, 401)
	for _, status := range []int{200, 401} {
		var mu sync.Mutex
		reached, all, release := 0, sync.WaitGroup{}, make(chan struct{})
		arrived := make(chan struct{}, 300)
		for range 300 {
			all.Go(func() {
				handlertest.Ask(context.Background(), h, func(w http.ResponseWriter, _ *http.Request) error {
					mu.Lock()
					reached++
					mu.Unlock()
					arrived <- struct{}{}
					<-release
					w.WriteHeader(status)
					return nil
				})
				arrived <- struct{}{}
			})
		}
		for range 300 { // each is refused, or waits
			<-arrived
		}
		close(release)
		all.Wait()
		if reached != 5 {
			t.Errorf("%d came through that are answered with %d, want 5", reached, status)
		}
	}
	if passed := handlertest.PassedOf(h, 3); passed != 0 {
		t.Errorf("%d more passed after five have counted", passed)
	}
}

// The header fields show the remaining units once the answer is counted.
func TestFieldsOfPendingRequests(t *testing.T) {
	for _, hold := range []bool{true, false} {
		h := handlertest.Counting(t, 5, hold, 401)
		for i, test := range []struct {
			next caddyhttp.HandlerFunc
			left string
		}{
			{handlertest.Answering(200), "r=5"}, {handlertest.Answering(401), "r=4"}, {handlertest.Answering(200), "r=4"}, {handlertest.Answering(103, 401), "r=3"},
			{handlertest.Failing(caddyhttp.Error(401, nil)), "r=2"}, {handlertest.Failing(caddyhttp.Error(502, nil)), "r=2"},
		} {
			w, _ := handlertest.Ask(context.Background(), h, test.next)
			if got := w.Header().Get("RateLimit"); !strings.Contains(got, `"z";`+test.left) {
				t.Errorf("hold %v: answer %d has %q, want %s", hold, i, got, test.left)
			}
		}
	}
}

// An inner handler sees the status at its place, and each of two handlers settles separately.
func TestPendingInTwoHandlers(t *testing.T) {
	outer, inner := handlertest.Counting(t, 2, true, 401), handlertest.Counting(t, 3, true, 403)
	hidden := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		err := inner.ServeHTTP(w, r, handlertest.Failing(caddyhttp.Error(403, nil)))
		if handlertest.StatusOf(err) == 403 {
			w.WriteHeader(http.StatusUnauthorized)
			return nil
		}
		return err
	})
	for range 2 {
		handlertest.Ask(context.Background(), outer, hidden)
	}
	if passed := handlertest.PassedOf(outer, 3); passed != 0 {
		t.Errorf("%d passed the outer handler, want none", passed)
	}
	passed := 0
	for range 3 {
		if _, err := handlertest.Ask(context.Background(), inner, handlertest.Failing(caddyhttp.Error(403, nil))); handlertest.StatusOf(err) == 403 {
			passed++
		}
	}
	if passed != 1 {
		t.Errorf("%d passed the inner handler, want 1", passed)
	}
}

// settledInMetrics returns how many requests of a handler's zone didn't count, and how many did.
func settledInMetrics(t *testing.T, h *enforce.Handler) (uncounted, counted float64) {
	t.Helper()
	families, err := h.Ctx.GetMetricsRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			switch labels := metric.GetLabel(); {
			case family.GetName() != "caddy_rate_limit_settled_requests_total" || labels[1].GetValue() != h.Zones[0].Name:
			case labels[0].GetValue() == "true":
				counted = metric.GetCounter().GetValue()
			default:
				uncounted = metric.GetCounter().GetValue()
			}
		}
	}
	return uncounted, counted
}

func TestSettledRequestsAreMetered(t *testing.T) {
	h := handlertest.Counting(t, 50, true, 401)
	uncountedBefore, countedBefore := settledInMetrics(t, h)
	for _, status := range []int{200, 401, 200, 200} {
		handlertest.Ask(context.Background(), h, handlertest.Answering(status))
	}
	uncounted, counted := settledInMetrics(t, h)
	if counted, uncounted = counted-countedBefore, uncounted-uncountedBefore; counted != 1 || uncounted != 3 {
		t.Errorf("%v counted and %v didn't, want 1 and 3", counted, uncounted)
	}
}

// A request that is denied for its API key counts by that status.
func TestDeniedRequestsCountByStatus(t *testing.T) {
	app := &config.App{Tiers: []*config.Tier{{Name: "free", Limits: []config.Limit{{Amount: 9, Window: hour}}}}}
	h := handlertest.Start(t, app, &config.Handler{Zones: []*config.Zone{
		{Name: "bad_keys", Limits: []config.Limit{{Amount: 2, Window: hour}}, Count: &config.Count{Status: []int{403}, Hold: true}},
		{Name: "plan", Tier: "{http.request.header.X-Plan}", Per: enforce.PerIP},
	}})
	denied := 0
	for range 5 {
		if w, err := handlertest.Ask(context.Background(), h, handlertest.Answering(200)); err == nil && w.Code == 403 {
			denied++
		}
	}
	if denied != 2 {
		t.Errorf("%d were denied, and the others refused; want 2", denied)
	}
}

// A shadow limit counts by status like an enforced one.
func TestShadowCountsByStatus(t *testing.T) {
	for _, hold := range []bool{true, false} {
		h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{
			{Name: "tried", Limits: []config.Limit{{Amount: 2, Window: hour}}, Count: &config.Count{Status: []int{401}, Hold: hold}, Shadow: true},
		}})
		var would []string
		for _, status := range []int{200, 401, 200, 200, 401, 200, 401} {
			handlertest.Ask(context.Background(), h, func(w http.ResponseWriter, r *http.Request) error {
				repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
				would = append(would, repl.ReplaceAll("{http.rate_limit.tried.would_refuse}", ""))
				w.WriteHeader(status)
				return nil
			})
		}
		if got := strings.Join(would, ","); got != ",,,,,tried,tried" {
			t.Errorf("hold %v: would refuse %q", hold, got)
		}
	}
}

// The status of gRPC is known at the end of an answer.
func TestStatusOfGRPCCountsAtTheEnd(t *testing.T) {
	trailer := func(name, value string) caddyhttp.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusOK)
			_, err := w.Write([]byte("message"))
			w.Header().Set(name, value)
			return err
		}
	}
	leaving := func(then caddyhttp.HandlerFunc) func(context.CancelFunc) caddyhttp.HandlerFunc {
		return func(cancel context.CancelFunc) caddyhttp.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) error {
				defer cancel()
				return then(w, r)
			}
		}
	}
	for name, test := range map[string]struct {
		next      caddyhttp.HandlerFunc
		leaves    bool
		counts    bool
		countHeld bool
	}{
		"a trailer":               {trailer("Trailer:Grpc-Status", "16"), false, true, true},
		"an announced trailer":    {trailer("Grpc-Status", "16"), false, true, true},
		"another status":          {trailer("Trailer:Grpc-Status", "0"), false, false, false},
		"a longer number":         {trailer("Trailer:Grpc-Status", "160"), false, false, false},
		"not a number":            {trailer("Trailer:Grpc-Status", "+16"), false, false, false},
		"none":                    {handlertest.Answering(200), false, false, false},
		"a status of HTTP beside": {handlertest.Answering(401), false, true, true},
		"an error":                {handlertest.Failing(caddyhttp.Error(401, nil)), false, true, true},
		"left before the end":     {trailer("X-Other", "16"), true, false, true},
		"left before the answer":  {handlertest.Failing(errors.New("gone")), true, false, true},
		"left as it ended":        {trailer("Trailer:Grpc-Status", "16"), true, true, true},
	} {
		for _, hold := range []bool{false, true} {
			h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{
				Name: "z", Limits: []config.Limit{{Amount: 1, Window: handlertest.Hour}},
				Count: &config.Count{Status: []int{401}, Hold: hold, When: []config.Answer{{GRPCStatus: []int{16}}}},
			}}})
			ctx, cancel := context.WithCancel(t.Context())
			next := test.next
			if test.leaves {
				next = leaving(next)(cancel)
			}
			if w, err := handlertest.Ask(ctx, h, next); handlertest.IsRefused(w, nil) {
				t.Fatal("the first request is refused", err)
			}
			cancel()
			want := test.counts && !hold || test.countHeld && hold
			if got := handlertest.IsRefused(handlertest.Ask(t.Context(), h, handlertest.Answering(200))); got != want {
				t.Errorf("%s, hold %v: the next request is refused: %v, want %v", name, hold, got, want)
			}
		}
	}
}

// frame returns a frame of gRPC-Web.
func frame(flags byte, data string) string {
	return string(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(data)))) + data
}

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// An answer of gRPC-Web has its status in the last frame of its body, which is read in whatever pieces it comes.
// Trailers that can't be read count: a client can choose how an answer is compressed.
func TestStatusOfGRPCWebCounts(t *testing.T) {
	const plain, text = "application/grpc-web+proto", "application/grpc-web-text"
	message, wrong := frame(0, "message"), frame(0x80, "grpc-status: 16\r\ngrpc-message: no\r\n")
	in64 := func(parts ...string) (text string) {
		for _, part := range parts {
			text += base64.StdEncoding.EncodeToString([]byte(part))
		}
		return text
	}
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{
		Name: "z", Limits: []config.Limit{{Amount: 1, Window: handlertest.Hour}},
		Count: &config.Count{When: []config.Answer{{GRPCStatus: []int{16}}}},
	}}})
	clients := 0
	for name, test := range map[string]struct {
		kind, body string
		fields     string
		counts     bool
	}{
		"trailers":                     {plain, message + wrong, "", true},
		"trailers alone":               {plain, wrong, "", true},
		"other lines":                  {plain, message + frame(0x80, "Grpc-Message:grpc-status: 0\nGRPC-STATUS:16"), "", true},
		"an empty message":             {plain, frame(0, "") + frame(0, "") + wrong, "", true},
		"OK":                           {plain, message + frame(0x80, "grpc-status:0\r\n"), "", false},
		"another status":               {plain, message + frame(0x80, "grpc-status:160\r\n"), "", false},
		"a message that looks like it": {plain, frame(0, wrong) + frame(0x80, "grpc-status:0\r\n"), "", false},
		"no trailers":                  {plain, message, "", false},
		"the header":                   {plain, "", "Grpc-Status: 16", true},
		"the header, OK, and coded":    {plain, "", "Grpc-Status: 0\nContent-Encoding: gzip", false},
		"text":                         {text, in64(message + wrong), "", true},
		"text with padding between":    {text, in64(message, wrong), "", true},
		"text, OK":                     {text + "+proto; x=y", in64(message, frame(0x80, "grpc-status:0\r\n")), "", false},
		"text that isn't base64":       {text, "!!!!" + in64(wrong), "", true},
		"capitals":                     {"Application/GRPC-Web", message + wrong, "", true},
		"compressed":                   {plain, message + frame(0x81, gzipped("grpc-status:16\r\n")), "Grpc-Encoding: gzip", true},
		"compressed, OK":               {plain, message + frame(0x81, gzipped("grpc-status:0\r\n")), "Grpc-Encoding: gzip", true},
		"not compressed":               {plain, message + frame(0x81, "grpc-status:0"), "Grpc-Encoding: gzip", true},
		"all of it compressed":         {plain, gzipped(message + wrong), "Content-Encoding: gzip", true},
		"identity":                     {plain, message + frame(0x80, "grpc-status:0"), "Content-Encoding: identity", false},
		"too long":                     {plain, message + frame(0x80, "grpc-message:"+strings.Repeat("x", 1<<20)+"\r\ngrpc-status:16"), "", true},
		"JSON":                         {"application/json", wrong, "", false},
	} {
		for way, size := range map[string]int{"at once": 1 << 30, "by bytes": 1, "in threes": 3, "copied": 0} {
			clients++
			client := fmt.Sprintf("2001:db8:0:%x::1", clients)
			w, err := handlertest.AskAs(t.Context(), h, client, nil, func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", test.kind)
				for line := range strings.Lines(test.fields) {
					name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
					w.Header().Set(name, value)
				}
				if size == 0 {
					_, err := io.Copy(w, strings.NewReader(test.body))
					return err
				}
				for rest := test.body; rest != ""; rest = rest[min(size, len(rest)):] {
					if _, err := io.WriteString(w, rest[:min(size, len(rest))]); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil || w.Body.String() != test.body || w.Header().Get("Trailer:Grpc-Status") != "" {
				t.Fatalf("%s, %s: the client gets %q, %v, %v", name, way, w.Body, w.Header(), err)
			}
			if got := handlertest.IsRefused(handlertest.AskAs(t.Context(), h, client, nil, handlertest.Answering(200))); got != test.counts {
				t.Errorf("%s, %s: the next request is refused: %v, want %v", name, way, got, test.counts)
			}
		}
	}
}

// A service is not asked to compress an answer of gRPC-Web in a zone that counts by the answer.
func TestGRPCWebIsNotCompressed(t *testing.T) {
	for kind, want := range map[string]string{"application/grpc-web+proto": "", "application/grpc": "gzip gzip"} {
		h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{
			Name: "z", Limits: []config.Limit{{Amount: 1, Window: handlertest.Hour}}, Count: &config.Count{When: []config.Answer{{GRPCStatus: []int{16}}}},
		}}})
		passed := ""
		next := func(w http.ResponseWriter, r *http.Request) error {
			passed = strings.TrimSpace(r.Header.Get("Accept-Encoding") + " " + r.Header.Get("Grpc-Accept-Encoding"))
			return nil
		}
		if _, _, err := handlertest.Get(h, "/", "192.0.2.1", next, "Content-Type", kind, "Accept-Encoding", "gzip", "Grpc-Accept-Encoding", "gzip"); err != nil || passed != want {
			t.Errorf("%s: %q is passed on, want %q; %v", kind, passed, want, err)
		}
	}
}

// A shadow limit that decides while later handlers write header fields, such as trailers, reads none of
// theirs meanwhile.
func TestLateShadowsReadNoHeaderThatIsWritten(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{
		Name: "tried", Limits: []config.Limit{{Amount: 1000, Window: hour}}, Shadow: true,
		Count: &config.Count{When: []config.Answer{{Header: map[string][]string{"X-Counted": {}}}}},
	}}})
	for i := range 300 {
		_, err := handlertest.AskAs(t.Context(), h, fmt.Sprint("2001:db8:0:", i, "::1"), nil, func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("X-Counted", "1")
			w.WriteHeader(http.StatusOK)
			for j := range 1000 {
				w.Header().Set(fmt.Sprint("X-", j%10), "")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
