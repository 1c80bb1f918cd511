package enforce_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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

// countingHandler returns a handler with a zone that counts some statuses.
func countingHandler(t testing.TB, amount int64, hold bool, statuses ...int) *enforce.Handler {
	return handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{
		Name: "z", Limits: []config.Limit{{Amount: amount, Window: hour}}, Count: &config.Count{Status: statuses, Hold: hold},
	}}})
}

// askFor sends a request to h, followed by another handler, and returns the answer.
func askFor(ctx context.Context, h *enforce.Handler, next caddyhttp.HandlerFunc) (w *hijackable, err error) {
	return askWith(ctx, h, nil, next)
}

// askWith is askFor with a body.
func askWith(ctx context.Context, h *enforce.Handler, body io.Reader, next caddyhttp.HandlerFunc) (w *hijackable, err error) {
	return askAs(ctx, h, "192.0.2.1", body, next)
}

// askAs is askWith for a client, by its address.
func askAs(ctx context.Context, h *enforce.Handler, client string, body io.Reader, next caddyhttp.HandlerFunc) (w *hijackable, err error) {
	w = &hijackable{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://example.com/login", body)
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, client)
	err = h.ServeHTTP(w, r, next)
	return w, err
}

// hijackable is a recorder that supports hijacking.
type hijackable struct{ *httptest.ResponseRecorder }

func (h *hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	ours, _ := net.Pipe()
	return ours, nil, ours.Close()
}

// answering returns a handler that writes statuses.
func answering(statuses ...int) caddyhttp.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) error {
		for _, status := range statuses {
			w.WriteHeader(status)
		}
		return nil
	}
}

// failing returns a handler that returns an error.
func failing(err error) caddyhttp.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) error { return err }
}

// errorRoute returns a handler that answers an error with a page, like the error routes of a
// subroute.
func errorRoute(status int) caddyhttp.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		new(caddyhttp.HTTPErrorConfig).WithError(r, caddyhttp.Error(status, nil))
		w.WriteHeader(http.StatusOK)
		return nil
	}
}

// passedOf returns how many of n requests that count pass.
func passedOf(h *enforce.Handler, n int) (passed int) { return passedAs(h, "192.0.2.1", n) }

// passedAs is passedOf for a client, by its address.
func passedAs(h *enforce.Handler, client string, n int) (passed int) {
	for range n {
		if w, err := askAs(context.Background(), h, client, nil, answering(401)); err == nil && w.Code == 401 {
			passed++
		}
	}
	return passed
}

// byHold returns two handlers that count statuses, one with hold and one without.
func byHold(t *testing.T, amount int64, statuses ...int) map[bool]*enforce.Handler {
	return map[bool]*enforce.Handler{true: countingHandler(t, amount, true, statuses...), false: countingHandler(t, amount, false, statuses...)}
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
		"of an error":            {config.Count{When: []config.Answer{{Status: []int{401}}}}, failing(caddyhttp.Error(401, nil)), true},
		"a field of an error":    {config.Count{When: []config.Answer{{Header: map[string][]string{"X-Failed": {}}}}}, failing(caddyhttp.Error(401, nil)), false},
		"only what comes first":  {config.Count{When: []config.Answer{{Status: []int{303}}}}, answering(200, 303), false},
		"not what comes earlier": {config.Count{When: []config.Answer{{Status: []int{303}}}}, answering(103, 303), true},
	} {
		for _, hold := range []bool{false, true} {
			count := test.Count
			count.Hold = hold
			h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{
				Name: "z", Limits: []config.Limit{{Amount: 1, Window: hour}}, Count: &count,
			}}})
			if _, err := askFor(context.Background(), h, test.next); err != nil && !errors.As(err, new(caddyhttp.HandlerError)) {
				t.Fatal(err)
			}
			w, err := askFor(context.Background(), h, answering(200))
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
		"written":                 {next: answering(401), counts: true},
		"written, another":        {next: answering(200)},
		"of a class":              {next: answering(404)},
		"after hints":             {next: answering(103, 103, 401), counts: true},
		"after hints, another":    {next: answering(103, 200)},
		"only the first":          {next: answering(200, 401)},
		"upgraded":                {next: answering(101)},
		"of a returned error":     {next: failing(caddyhttp.Error(401, nil)), counts: true},
		"of another error":        {next: failing(caddyhttp.Error(502, nil))},
		"of a wrapped error":      {next: failing(errors.Join(errors.New("no"), caddyhttp.Error(401, nil))), counts: true},
		"of an error without one": {next: failing(errors.New("no")), counts: false},
		"nothing written":         {next: answering()},
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
		"left":                        {next: failing(caddyhttp.Error(499, nil)), leaves: true, counts: true},
		"left, as reverse_proxy says": {next: answering(499), leaves: true, counts: true},
		"left, and answered":          {next: answering(200), leaves: true},
		"left, and nothing returned":  {next: answering(), leaves: true, counts: true},
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
				askAs(ctx, h, client.String(), nil, func(w http.ResponseWriter, r *http.Request) error {
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
			if passed := passedAs(h, client.String(), 5); passed != want {
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
			return answering(502)(w, r)
		}, true},
		"breaks off, panics": {unreadable, func(w http.ResponseWriter, r *http.Request) error {
			io.ReadAll(r.Body)
			panic(http.ErrAbortHandler)
		}, true},
		"too long for a later handler": {nil, func(w http.ResponseWriter, r *http.Request) error {
			r.Body = http.MaxBytesReader(w, r.Body, 2)
			return read(w, r)
		}, true},
		"too long, and nothing is read": {nil, failing(caddyhttp.Error(502, new(http.MaxBytesError))), false},
		"not read":                      {unreadable, failing(errors.New("no upstream")), false},
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
					askAs(context.Background(), h, client.String(), body, test.next)
				}()
				w, err := askAs(context.Background(), h, client.String(), nil, answering(200))
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
		h := countingHandler(t, 1, true, 401)
		during := 0
		askFor(context.Background(), h, func(w http.ResponseWriter, _ *http.Request) error {
			if passed := passedOf(h, 1); passed != 0 {
				t.Errorf("%s: another passed before the status was known", name)
			}
			if err := begin(w); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			during = passedOf(h, 3)
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
	h := countingHandler(t, 5, true, 401)
	for _, status := range []int{200, 401} {
		var mu sync.Mutex
		reached, all, release := 0, sync.WaitGroup{}, make(chan struct{})
		arrived := make(chan struct{}, 300)
		for range 300 {
			all.Go(func() {
				askFor(context.Background(), h, func(w http.ResponseWriter, _ *http.Request) error {
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
	if passed := passedOf(h, 3); passed != 0 {
		t.Errorf("%d more passed after five have counted", passed)
	}
}

// The header fields show the remaining units once the answer is counted.
func TestFieldsOfPendingRequests(t *testing.T) {
	for _, hold := range []bool{true, false} {
		h := countingHandler(t, 5, hold, 401)
		for i, test := range []struct {
			next caddyhttp.HandlerFunc
			left string
		}{
			{answering(200), "r=5"}, {answering(401), "r=4"}, {answering(200), "r=4"}, {answering(103, 401), "r=3"},
			{failing(caddyhttp.Error(401, nil)), "r=2"}, {failing(caddyhttp.Error(502, nil)), "r=2"},
		} {
			w, _ := askFor(context.Background(), h, test.next)
			if got := w.Header().Get("RateLimit"); !strings.Contains(got, `"z";`+test.left) {
				t.Errorf("hold %v: answer %d has %q, want %s", hold, i, got, test.left)
			}
		}
	}
}

// An inner handler sees the status at its place, and each of two handlers settles separately.
func TestPendingInTwoHandlers(t *testing.T) {
	outer, inner := countingHandler(t, 2, true, 401), countingHandler(t, 3, true, 403)
	hidden := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		err := inner.ServeHTTP(w, r, failing(caddyhttp.Error(403, nil)))
		if enforce.StatusOf(err) == 403 {
			w.WriteHeader(http.StatusUnauthorized)
			return nil
		}
		return err
	})
	for range 2 {
		askFor(context.Background(), outer, hidden)
	}
	if passed := passedOf(outer, 3); passed != 0 {
		t.Errorf("%d passed the outer handler, want none", passed)
	}
	passed := 0
	for range 3 {
		if _, err := askFor(context.Background(), inner, failing(caddyhttp.Error(403, nil))); enforce.StatusOf(err) == 403 {
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
	h := countingHandler(t, 50, true, 401)
	uncountedBefore, countedBefore := settledInMetrics(t, h)
	for _, status := range []int{200, 401, 200, 200} {
		askFor(context.Background(), h, answering(status))
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
		if w, err := askFor(context.Background(), h, answering(200)); err == nil && w.Code == 403 {
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
			askFor(context.Background(), h, func(w http.ResponseWriter, r *http.Request) error {
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
