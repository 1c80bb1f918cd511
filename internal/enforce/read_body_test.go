package enforce_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// readingHandler returns a handler whose zone reads bodies of at most 8 bytes, and admits one
// failure.
func readingHandler(t *testing.T) *enforce.Handler {
	return handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{
		Name: "z", Limits: []config.Limit{{Amount: 1, Window: hour}}, Count: &config.Count{Status: []int{401}, Hold: true, ReadBody: 8},
	}}})
}

// echoing answers with the body of a request.
func echoing(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	_, err = w.Write(body)
	return err
}

// slow is a body that signals the first read, and blocks until it may continue.
type slow struct {
	asked, may chan struct{}
	io.Reader
}

func newSlow(text string) *slow {
	return &slow{make(chan struct{}, 100), make(chan struct{}), strings.NewReader(text)}
}

func (s *slow) Read(data []byte) (int, error) {
	s.asked <- struct{}{}
	<-s.may
	return s.Reader.Read(data)
}

// whileSlow returns the status of a request while another one's body is slow.
func whileSlow(t *testing.T, h *enforce.Handler) int {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	body, done := newSlow("guess"), make(chan string)
	go func() {
		w, err := handlertest.AskWith(ctx, h, body, echoing)
		done <- fmt.Sprint(w.Code, w.Body, err)
	}()
	<-body.asked
	w, err := handlertest.Ask(ctx, h, handlertest.Answering(200))
	if err != nil {
		t.Error(err)
	}
	close(body.may)
	if got := <-done; got != "200 guess <nil>" {
		t.Errorf("the slow one is answered with %s", got)
	}
	return w.Code
}

// A client that sends its body slowly takes no attempts from others.
func TestSlowBodiesHoldNothing(t *testing.T) {
	if got := whileSlow(t, handlertest.Counting(t, 1, true, 401)); got != http.StatusTooManyRequests {
		t.Errorf("without read_body another is answered with %d, want 429", got)
	}
	if got := whileSlow(t, readingHandler(t)); got != http.StatusOK {
		t.Errorf("with read_body another is answered with %d, want 200", got)
	}
}

// hoard fills the memory for bodies with those of a client, until the test ends.
func hoard(t *testing.T, client string) {
	for range enforce.MaxBodies/enforce.MaxReadBody + 1 {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.com/", bytes.NewReader(make([]byte, enforce.MaxReadBody)))
		if longer, err := enforce.Bodies.Of(r, netip.MustParsePrefix(client+"/32")).Fill(enforce.MaxReadBody); longer || err != nil {
			t.Fatal(longer, err)
		}
		t.Cleanup(func() { r.Body.Close() })
	}
}

// When the memory for bodies is full, the client that holds most of it is refused, and isn't passed
// without being counted. Others are served as before.
func TestAHoarderIsRefusedAndOthersAreNot(t *testing.T) {
	h, body := readingHandler(t), newSlow("guess")
	done := make(chan *handlertest.Recorder)
	go func() {
		w, err := handlertest.AskAs(t.Context(), h, "192.0.2.9", body, func(http.ResponseWriter, *http.Request) error {
			t.Error("a request whose body is lost is passed on")
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		done <- w
	}()
	body.may <- struct{}{} // the first piece
	<-body.asked
	<-body.asked
	hoard(t, "192.0.2.9")
	w, err := handlertest.AskWith(t.Context(), h, strings.NewReader("right"), echoing)
	if err != nil || w.Body.String() != "right" {
		t.Errorf("another client is answered with %d %q, %v", w.Code, w.Body, err)
	}
	close(body.may)
	if w := <-done; w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("the hoarder is answered with %d, %v, want 503", w.Code, w.Header())
	}
	if passed := handlertest.PassedAs(h, "192.0.2.9", 2); passed != 1 {
		t.Errorf("%d of the hoarder's requests pass afterwards, want 1", passed)
	}
}

// A body that is unreadable or too long reaches no later handler and uses up nothing. The body of a
// request that is refused anyway isn't read.
func TestBodiesThatAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		body io.Reader
		want int
	}{
		"as long as it may be": {strings.NewReader("12345678"), 0},
		"of unknown length":    {io.MultiReader(strings.NewReader("1234")), 0},
		"too long":             {strings.NewReader("123456789"), 413},
		"too long, unknown":    {io.MultiReader(strings.NewReader("123456789")), 413},
		"breaks off":           {io.MultiReader(strings.NewReader("1234"), iotest.ErrReader(io.ErrUnexpectedEOF)), 400},
		"too long for another": {iotest.ErrReader(caddyhttp.Error(413, errors.New("enough"))), 413},
	} {
		h, came := readingHandler(t), false
		w, err := handlertest.AskWith(t.Context(), h, c.body, func(w http.ResponseWriter, r *http.Request) error {
			came = true
			return echoing(w, r)
		})
		if came != (c.want == 0) || err != nil || c.want > 0 && w.Code != c.want {
			t.Errorf("%s: came %v, %d, %v, want %d", name, came, w.Code, err, c.want)
		}
		if passed := handlertest.PassedOf(h, 2); passed != 1 {
			t.Errorf("%s: %d pass afterwards, want 1", name, passed)
		}
		unread := readerFunc(func([]byte) (int, error) {
			t.Errorf("%s: the body of a refused request is read", name)
			return 0, io.EOF
		})
		if w, err := handlertest.AskWith(t.Context(), h, unread, echoing); err != nil || w.Code != http.StatusTooManyRequests {
			t.Errorf("%s: one more is answered with %d, %v", name, w.Code, err)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(data []byte) (int, error) { return f(data) }

// counted is a body that counts the bytes read from it.
type counted struct {
	io.Reader
	read int
}

func (c *counted) Read(data []byte) (int, error) {
	n, err := c.Reader.Read(data)
	c.read += n
	return n, err
}

// A placeholder of the body reads at most 64 KiB of it before the decision, wherever an option has
// it, and only of requests that it concerns. The body arrives byte for byte, and for later handlers
// the placeholder is Caddy's.
func TestPlaceholdersOfBodies(t *testing.T) {
	const body = "{http.request.body}"
	expression := caddy.ModuleMap{"expression": caddyconfig.JSON(`{http.request.body} == "x" || {http.request.body_base64} == {http.vars.y}`, nil)}
	vars := caddyhttp.RawMatcherSets{{"vars": caddyconfig.JSON(map[string][]string{body: {"x"}}, nil), "path": caddyconfig.JSON([]string{"/login"}, nil)}}
	not := caddyhttp.RawMatcherSets{{"not": caddyconfig.JSON(caddyhttp.RawMatcherSets{{"vars_regexp": caddyconfig.JSON(map[string]any{"{http.request.body_base64}": map[string]string{"pattern": "^$"}}, nil)}}, nil)}}
	for name, z := range map[string]*config.Zone{
		"key":       {Per: "key", Key: body},
		"base64":    {Key: "a{http.request.body_base64}"},
		"cost":      {Cost: body, MaxCost: 1},
		"costs":     {Costs: []config.Cost{{Cost: body, MatcherSetsRaw: vars}}, MaxCost: 1},
		"tier":      {Tier: body, DefaultTier: "free"},
		"match":     {MatcherSetsRaw: vars},
		"nested":    {MatcherSetsRaw: not},
		"expressed": {MatcherSetsRaw: caddyhttp.RawMatcherSets{expression}},
		"settle":    {Cost: "1", Settle: body},
		"exempt":    {},
		"trap":      {},
	} {
		if z.Name = "z"; z.Tier == "" {
			z.Limits = []config.Limit{{Amount: 1 << 20, Window: hour}}
		}
		of := &config.Handler{Zones: []*config.Zone{z}}
		switch name {
		case "exempt":
			of.ExemptRaw = caddyhttp.RawMatcherSets{expression}
		case "trap":
			of.Traps = []*config.Trap{{MatcherSetsRaw: caddyhttp.RawMatcherSets{expression}, Ban: hour}}
		}
		h := handlertest.Start(t, &config.App{Tiers: []*config.Tier{{Name: "free", Limits: []config.Limit{{Amount: 1 << 20, Window: hour}}}}}, of)
		for _, size := range []int{0, 3, 64 << 10, 64<<10 + 1, 1 << 20} {
			sent, at := strings.Repeat("guessing.", size)[:size], 0
			from := &counted{Reader: strings.NewReader(sent)}
			_, err := handlertest.AskWith(t.Context(), h, from, func(_ http.ResponseWriter, r *http.Request) error {
				at = from.read
				if value, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).GetString("http.request.body"); value != sent {
					t.Errorf("%s, %d bytes: the placeholder has %d afterwards", name, size, len(value))
				}
				if got, err := io.ReadAll(r.Body); err != nil || string(got) != sent {
					t.Errorf("%s, %d bytes: %d arrive, %v", name, size, len(got), err)
				}
				return nil
			})
			if want := min(size, 64<<10+1); err != nil || at > want || at < want && name != "settle" {
				t.Errorf("%s, %d bytes: %d are read before the decision, %v, want %d", name, size, at, err, want)
			}
		}
	}
}

// All bodies of more than 64 KiB are one key, and cost all of the limit, as what isn't a number does. They
// count in zones that match by the body, and exemptions don't match them.
func TestLongBodiesCount(t *testing.T) {
	const body = "{http.request.body}"
	guess := caddyhttp.RawMatcherSets{{"expression": caddyconfig.JSON(`{http.request.body}.contains("guess")`, nil)}}
	vars := func(matcher, value string) caddyhttp.RawMatcherSets {
		var test any = []string{value}
		if matcher == "vars_regexp" {
			test = map[string]string{"pattern": value}
		}
		return caddyhttp.RawMatcherSets{{matcher: caddyconfig.JSON(map[string]any{body: test}, nil)}}
	}
	limits := []config.Limit{{Amount: 3, Window: hour}}
	for name, of := range map[string]*config.Handler{
		"key":    {Zones: []*config.Zone{{Name: "z", Key: body, Limits: limits}}},
		"cost":   {Zones: []*config.Zone{{Name: "z", Cost: body, Limits: limits}}},
		"match":  {Zones: []*config.Zone{{Name: "z", MatcherSetsRaw: guess, Limits: limits}}},
		"exempt": {Zones: []*config.Zone{{Name: "z", Limits: limits}}, ExemptRaw: guess},
		"vars":   {Zones: []*config.Zone{{Name: "z", MatcherSetsRaw: vars("vars", "guess"), Limits: limits}}},
		"regexp": {Zones: []*config.Zone{{Name: "z", MatcherSetsRaw: vars("vars_regexp", "^no"), Limits: limits}}},
		"not":    {Zones: []*config.Zone{{Name: "z", Limits: limits}}, ExemptRaw: caddyhttp.RawMatcherSets{{"not": caddyconfig.JSON(vars("vars", "guess"), nil)}}},
	} {
		h, passed := handlertest.Start(t, new(config.App), of), 0
		for i := range 5 {
			w, err := handlertest.AskWith(t.Context(), h, strings.NewReader(fmt.Sprint(i, strings.Repeat(" ", 64<<10), "guess")), handlertest.Answering(200))
			if err != nil {
				t.Fatal(name, err)
			}
			if w.Code == 200 {
				passed++
			}
		}
		want := 3
		if name == "cost" {
			want = 1
		}
		if passed != want {
			t.Errorf("%s: %d of 5 long bodies pass, want %d", name, passed, want)
		}
	}
}
