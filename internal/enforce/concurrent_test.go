package enforce_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/gate"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// concurrentHandler bounds the requests of an address in flight, and its units in an hour in
// another zone.
func concurrentHandler(t *testing.T, c config.Concurrent, units int64) *enforce.Handler {
	name := strings.ReplaceAll(t.Name(), "/", "-")
	return handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{
		{Name: name, Per: "ip", Concurrent: &c},
		{Name: name + "-units", Per: "ip", Limits: []config.Limit{{Amount: units, Window: hour}}},
	}})
}

// held is a handler that holds requests until they are released.
type held struct{ came, let chan struct{} }

func newHeld() held { return held{make(chan struct{}, 100), make(chan struct{})} }

func (h held) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	h.came <- struct{}{}
	<-h.let
	w.WriteHeader(http.StatusOK)
	return nil
}

func TestSoManyRequestsAreUnderWay(t *testing.T) {
	h, behind := concurrentHandler(t, config.Concurrent{Requests: 2}, 3), newHeld()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if w, err := handlertest.Ask(context.Background(), h, behind.ServeHTTP); handlertest.IsRefused(w, err) {
				t.Error("one of the first two was refused")
			}
		})
		<-behind.came
	}
	for range 5 { // they take no unit of the other zone either
		w, err := handlertest.Ask(context.Background(), h, handlertest.Answering(200))
		if !handlertest.IsRefused(w, err) {
			t.Error("the third was let through")
		}
		if policy := w.Header().Get("RateLimit-Policy"); policy != `"TestSoManyRequestsAreUnderWay-concurrent";q=2;qu="concurrent-requests"` {
			t.Errorf("got RateLimit-Policy %s", policy)
		}
		if limit, after := w.Header().Get("RateLimit"), w.Header().Get("Retry-After"); !strings.Contains(limit, "r=0") || after == "" {
			t.Errorf("got RateLimit %s, Retry-After %s", limit, after)
		}
	}
	if w, err := handlertest.AskAs(context.Background(), h, "192.0.2.2", nil, handlertest.Answering(200)); handlertest.IsRefused(w, err) {
		t.Error("another address was refused")
	}
	close(behind.let)
	all.Wait()
	w, err := handlertest.Ask(context.Background(), h, handlertest.Answering(200))
	if handlertest.IsRefused(w, err) || !strings.Contains(w.Header().Get("RateLimit"), `-concurrent";r=1`) {
		t.Errorf("got %d, %v, RateLimit %s", w.Code, err, w.Header().Get("RateLimit"))
	}
	if w, err := handlertest.Ask(context.Background(), h, handlertest.Answering(200)); !handlertest.IsRefused(w, err) {
		t.Error("the units of the other zone are not used up by three")
	}
}

// However a request ends, its place becomes free, once.
func TestPlacesAreFreeAgain(t *testing.T) {
	h := concurrentHandler(t, config.Concurrent{Requests: 1}, 1000)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for name, next := range map[string]caddyhttp.HandlerFunc{
		"answer":  handlertest.Answering(200),
		"error":   handlertest.Failing(caddyhttp.Error(502, nil)),
		"nothing": func(http.ResponseWriter, *http.Request) error { return nil },
		"upgrade": func(w http.ResponseWriter, _ *http.Request) error {
			_, _, err := http.NewResponseController(w).Hijack()
			return err
		},
		"panic":    func(http.ResponseWriter, *http.Request) error { panic("x") },
		"abort":    func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) },
		"gone":     func(http.ResponseWriter, *http.Request) error { return gone.Err() },
		"streamed": func(w http.ResponseWriter, _ *http.Request) error { return http.NewResponseController(w).Flush() },
	} {
		func() {
			defer func() { _ = recover() }()
			_, _ = handlertest.Ask(context.Background(), h, next)
		}()
		if n := gate.Named(t.Name()).Len(); n != 0 {
			t.Errorf("%s: %d keys have requests under way", name, n)
		}
		if w, err := handlertest.Ask(context.Background(), h, handlertest.Answering(200)); handlertest.IsRefused(w, err) {
			t.Errorf("%s: the next request is refused", name)
		}
	}
}

// A request that another limit refuses takes no place.
func TestRefusedRequestsAreNotUnderWay(t *testing.T) {
	h := concurrentHandler(t, config.Concurrent{Requests: 1}, 1)
	for i := range 3 {
		if w, err := handlertest.Ask(context.Background(), h, handlertest.Answering(200)); handlertest.IsRefused(w, err) != (i > 0) {
			t.Errorf("request %d: got %d, %v", i, w.Code, err)
		}
	}
	if n := gate.Named(t.Name()).Len(); n != 0 {
		t.Errorf("%d keys have requests under way", n)
	}
}

func TestRequestsWaitForAPlace(t *testing.T) {
	h, behind := concurrentHandler(t, config.Concurrent{Requests: 1, Wait: caddy.Duration(time.Minute), Queue: 2}, 1000), newHeld()
	var all sync.WaitGroup
	var passed atomic.Int64
	for range 3 {
		all.Go(func() {
			if w, err := handlertest.Ask(context.Background(), h, behind.ServeHTTP); !handlertest.IsRefused(w, err) {
				passed.Add(1)
			}
		})
	}
	<-behind.came
	for gate.Named(t.Name()).Waiting() < 2 {
		time.Sleep(time.Millisecond)
	}
	if w, err := handlertest.Ask(context.Background(), h, handlertest.Answering(200)); !handlertest.IsRefused(w, err) {
		t.Error("the line was full, and one more was let in")
	}
	close(behind.let)
	all.Wait()
	if passed.Load() != 3 {
		t.Errorf("%d of three passed", passed.Load())
	}
}

// A reload changes the number. Requests of the earlier config count in the next one.
func TestPlacesOutliveAConfig(t *testing.T) {
	first, behind := concurrentHandler(t, config.Concurrent{Requests: 1}, 1000), newHeld()
	var all sync.WaitGroup
	all.Go(func() { _, _ = handlertest.Ask(context.Background(), first, behind.ServeHTTP) })
	<-behind.came
	second := concurrentHandler(t, config.Concurrent{Requests: 1}, 1000)
	if w, err := handlertest.Ask(context.Background(), second, handlertest.Answering(200)); !handlertest.IsRefused(w, err) {
		t.Error("two are under way after a reload")
	}
	close(behind.let)
	all.Wait()
	if w, err := handlertest.Ask(context.Background(), second, handlertest.Answering(200)); handlertest.IsRefused(w, err) {
		t.Error("the place isn't free")
	}
}

// askForPage asks as a browser whose user follows a link or sends a form.
func askForPage(ctx context.Context, h *enforce.Handler, method string, next caddyhttp.HandlerFunc) *handlertest.Recorder {
	w := &handlertest.Recorder{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequestWithContext(ctx, method, "http://example.com/page", nil)
	r.Header = http.Header{"Accept": {"text/html,*/*;q=0.8"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "192.0.2.1")
	if err := h.ServeHTTP(w, r, next); err != nil {
		w.Code = handlertest.StatusOf(err)
	}
	return w
}

// A browser that waited in vain gets a page that says how many wait, and returns. It leaves nothing
// behind. Others are refused, and so are forms: the page would send them again as something else.
func TestBrowsersWaitOnAPage(t *testing.T) {
	h, behind := concurrentHandler(t, config.Concurrent{Requests: 1, Wait: caddy.Duration(10 * time.Millisecond), Queue: 1}, 1000), newHeld()
	var all sync.WaitGroup
	all.Go(func() { _, _ = handlertest.Ask(context.Background(), h, behind.ServeHTTP) })
	<-behind.came
	for range 3 { // nobody is in the line when it returns
		w := askForPage(t.Context(), h, http.MethodGet, handlertest.Answering(200))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Refresh") != "1" || w.Header().Get("Retry-After") != "1" ||
			!strings.Contains(w.Body.String(), "Requests in the line: <b>1</b>.") || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("got %d, %v, %s, want the page with one that waits", w.Code, w.Header(), w.Body)
		}
		if n := gate.Named(t.Name()).Waiting(); n != 0 {
			t.Errorf("%d positions are kept", n)
		}
	}
	if w := askForPage(t.Context(), h, http.MethodPost, handlertest.Answering(200)); w.Code != http.StatusTooManyRequests {
		t.Errorf("a form: got %d, want 429", w.Code)
	}
	if w, err := handlertest.Ask(context.Background(), h, handlertest.Answering(200)); !handlertest.IsRefused(w, err) {
		t.Errorf("a program: got %d, want 429", w.Code)
	}
	close(behind.let)
	all.Wait()
	if w := askForPage(t.Context(), h, http.MethodGet, handlertest.Answering(200)); w.Code != http.StatusOK {
		t.Errorf("with a free place: got %d", w.Code)
	}
	if n := gate.Named(t.Name()).Len(); n != 0 {
		t.Errorf("%d keys have requests under way", n)
	}
}

// Browsers that abort their requests hold no position, however many come.
func TestLinesHoldNoGhosts(t *testing.T) {
	h, behind := concurrentHandler(t, config.Concurrent{Requests: 1, Wait: caddy.Duration(time.Minute), Queue: 2}, 1000), newHeld()
	var all sync.WaitGroup
	all.Go(func() { _, _ = handlertest.Ask(context.Background(), h, behind.ServeHTTP) })
	<-behind.came
	for range 15 {
		ctx, abort := context.WithTimeout(t.Context(), time.Millisecond)
		if w := askForPage(ctx, h, http.MethodGet, handlertest.Answering(200)); w.Code != 499 {
			t.Errorf("a request that is aborted: got %d", w.Code)
		}
		abort()
	}
	all.Go(func() {
		if w := askForPage(t.Context(), h, http.MethodGet, handlertest.Answering(200)); w.Code != http.StatusOK {
			t.Errorf("an honest request: got %d", w.Code)
		}
	})
	for gate.Named(t.Name()).Waiting() != 1 {
		time.Sleep(time.Millisecond)
	}
	close(behind.let)
	all.Wait()
}

// In shadow, and with on_exceeded pass, requests pass without a place. Those that would have been
// let in are the ones that count.
func TestPlacesInShadow(t *testing.T) {
	for name, zone := range map[string]*config.Zone{
		"shadow": {Shadow: true},
		"pass":   {OnExceeded: "pass", PassHeader: "X-Over"},
	} {
		t.Run(name, func(t *testing.T) {
			zone.Name, zone.Per = strings.ReplaceAll(t.Name(), "/", "-"), "ip"
			zone.Concurrent = &config.Concurrent{Requests: 2, Wait: caddy.Duration(time.Minute), Queue: 5}
			h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{
				zone, {Name: zone.Name + "-units", Per: "ip", Limits: []config.Limit{{Amount: 7, Window: hour}}},
			}})
			behind := newHeld()
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() { _, _ = handlertest.Ask(context.Background(), h, behind.ServeHTTP) })
				<-behind.came
			}
			for range 3 {
				w, err := handlertest.Ask(context.Background(), h, func(w http.ResponseWriter, r *http.Request) error {
					repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
					if by := repl.ReplaceAll("{http.rate_limit."+zone.Name+".would_refuse}", ""); by != zone.Name+"-concurrent" {
						t.Errorf("the placeholder has %q", by)
					}
					if name == "pass" && r.Header.Get("X-Over") != zone.Name+"-concurrent" {
						t.Errorf("the header is %v", r.Header)
					}
					return nil
				})
				if handlertest.IsRefused(w, err) || strings.Contains(w.Header().Get("RateLimit"), "concurrent") {
					t.Errorf("got %d, %v, %v", w.Code, err, w.Header())
				}
			}
			close(behind.let)
			all.Wait()
			for i := range 4 { // two more units; what is refused elsewhere would take no place
				if w, err := handlertest.Ask(context.Background(), h, handlertest.Answering(200)); handlertest.IsRefused(w, err) != (i > 1) {
					t.Errorf("request %d afterwards: got %d, %v", i, w.Code, err)
				}
			}
			if n := gate.Named(zone.Name).Len(); n != 0 {
				t.Errorf("%d keys have requests under way", n)
			}
			refused, would := h.Zones[0].Meter.Totals()
			if refused != 0 || would != 3 {
				t.Errorf("%d refused and %d would be, want 0 and 3", refused, would)
			}
			if z := zonesShown(t, h)[0]; !z.Shadow || z.WouldRefuse != 3 || z.Allowed != 4 {
				t.Errorf("operators see %+v", z)
			}
		})
	}
}

// In a line of many networks each takes its turn: requests of others come in behind a single one of the
// network that has many. Where a zone asks for API keys, those of a key take its turns, wherever they come from.
func TestPartiesTakeTurns(t *testing.T) {
	type request struct{ address, key string }
	for name, tt := range map[string]struct {
		requests []request
		want     []int // the order in which those behind the first come in
	}{
		// Both addresses of IPv6 are of one network.
		"networks": {[]request{{"192.0.2.1", ""}, {"192.0.2.1", ""}, {"192.0.2.1", ""}, {"192.0.2.1", ""}, {"2001:db8::1", ""}, {"2001:db8::2", ""}, {"192.0.2.3", ""}},
			[]int{1, 4, 6, 2, 5, 3}},
		"keys of one network": {[]request{{"192.0.2.1", "acme"}, {"192.0.2.1", "acme"}, {"192.0.2.1", "acme"}, {"192.0.2.1", "acme"}, {"192.0.2.1", "beta"}, {"192.0.2.1", "beta"}},
			[]int{1, 4, 2, 5, 3}},
		"a key in many networks": {[]request{{"192.0.2.1", "acme"}, {"192.0.2.2", "acme"}, {"192.0.2.3", "acme"}, {"192.0.2.4", "acme"}, {"192.0.2.5", "beta"}},
			[]int{1, 4, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "api_keys")
			keys := map[string]string{}
			for _, client := range []string{"acme", "beta"} {
				key, err := apikeys.New(file, apikeys.Holder{Name: client, Tier: "free"})
				if err != nil {
					t.Fatal(err)
				}
				keys[client] = key
			}
			line := t.Name()
			zones := []*config.Zone{{Name: line, Per: "everyone", Concurrent: &config.Concurrent{Requests: 1, Wait: caddy.Duration(5 * time.Minute), Queue: 9}}}
			app := new(config.App)
			if tt.requests[0].key != "" {
				app.APIKeys = &config.APIKeys{File: file}
				app.Tiers = []*config.Tier{{Name: "free", Limits: []config.Limit{{Amount: 100, Window: hour}}}}
				zones = append(zones, &config.Zone{Name: "keys", Per: "api_key", Limits: []config.Limit{{Amount: 100, Window: hour}}})
			}
			h := handlertest.Start(t, app, &config.Handler{Zones: zones})
			came, let := make(chan int), make(chan struct{})
			var all sync.WaitGroup
			for i, r := range tt.requests {
				all.Go(func() {
					_, w, err := handlertest.Get(h, "/", r.address, func(w http.ResponseWriter, _ *http.Request) error {
						came <- i
						<-let
						w.WriteHeader(http.StatusOK)
						return nil
					}, "X-Api-Key", keys[r.key])
					if err != nil || w.Code != http.StatusOK {
						t.Errorf("request %d: %d, %v", i, w.Code, err)
					}
				})
				if i == 0 {
					<-came // the others wait
				}
				for gate.Named(line).Waiting() < i {
					time.Sleep(time.Millisecond)
				}
			}
			for _, want := range tt.want {
				let <- struct{}{}
				if got := <-came; got != want {
					t.Errorf("request %d comes in, want %d", got, want)
				}
			}
			close(let)
			all.Wait()
		})
	}
}
