package enforce_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// settled is a handler of a limit of 1000 an hour that takes 100 and is settled by a measure.
func settled(t *testing.T, measure string, maxCost int64) *enforce.Handler {
	name := strings.ReplaceAll(t.Name(), "/", "-")
	return handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{
		{Name: name, Per: "ip", Limits: []config.Limit{{Amount: 1000, Window: hour}}, Cost: "100", MaxCost: maxCost, Settle: measure},
	}})
}

// left returns how many units are left, as the next request is told, which uses none.
func left(t *testing.T, h *enforce.Handler) (units int) {
	t.Helper()
	w, err := handlertest.Ask(context.Background(), h, using("0"))
	if handlertest.IsRefused(w, err) {
		return 0
	}
	_, text, _ := strings.Cut(w.Header().Get("RateLimit"), ";r=")
	if _, err := fmt.Sscan(strings.ReplaceAll(text, ";", " "), &units); err != nil {
		t.Fatal(err)
	}
	return units + 100
}

// using returns a handler whose answer says how many units it has used.
func using(units string) caddyhttp.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if units != "" {
			w.Header().Set("X-Units", units)
		}
		w.WriteHeader(http.StatusOK)
		return nil
	}
}

// A request counts what its answer says that it has used. Without that, or with something else, its cost
// stays.
func TestAnswersSayWhatTheyUsed(t *testing.T) {
	for units, want := range map[string]int{
		"0": 1000, "30": 970, "100": 900, "250": 750, " 7 ": 993, "": 900, "x": 900, "-5": 900, "1.5": 900, "9000000000000000000000": 0,
	} {
		t.Run("of "+units, func(t *testing.T) {
			h := settled(t, "{http.response.header.X-Units}", 0)
			w, err := handlertest.Ask(context.Background(), h, using(units))
			if handlertest.IsRefused(w, err) || !strings.Contains(w.Header().Get("RateLimit"), "r=900") {
				t.Errorf("got %d, %v, %v", w.Code, err, w.Header())
			}
			if got := left(t, h); got != want {
				t.Errorf("%d are left, want %d", got, want)
			}
		})
	}
}

// A client that chooses the estimate can't choose to be free of the limit.
func TestAnEstimateOfNothingIsLimited(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{
		Name: t.Name(), Per: "ip", Limits: []config.Limit{{Amount: 1000, Window: hour}}, Cost: "{http.request.header.X-Estimate}", Settle: "{http.response.header.X-Units}",
	}}})
	passed := 0
	for range 10 {
		w := &handlertest.Recorder{ResponseRecorder: httptest.NewRecorder()}
		r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodPost, "/", nil), caddy.NewReplacer(), w, new(caddyhttp.Server))
		r.Header.Set("X-Estimate", "0")
		if !handlertest.IsRefused(w, h.ServeHTTP(w, r, using("300"))) {
			passed++
		}
	}
	if passed != 4 {
		t.Errorf("%d requests that use 300 of 1000 each passed, want 4", passed)
	}
}

// A handler around this one that removes the field hides it from clients, not from the limit.
func TestUseIsKnownBeforeTheFieldIsRemoved(t *testing.T) {
	h := settled(t, "{http.response.header.X-Units}", 0)
	hiding := func(w http.ResponseWriter, r *http.Request) error {
		if err := using("250")(w, r); err != nil {
			return err
		}
		w.Header().Del("X-Units") // as a deferred `header` does, once it is written
		_, err := w.Write([]byte("hello"))
		return err
	}
	if _, err := handlertest.Ask(context.Background(), h, hiding); err != nil {
		t.Fatal(err)
	}
	if got := left(t, h); got != 750 {
		t.Errorf("%d are left, want 750", got)
	}
}

// An answer to HEAD has no bytes, whatever a handler writes.
func TestHEADUsesNoBytes(t *testing.T) {
	h := settled(t, "bytes", 0)
	write := func(w http.ResponseWriter, _ *http.Request) error {
		_, err := io.Copy(w, strings.NewReader(strings.Repeat("x", 500)))
		return err
	}
	if err := h.ServeHTTP(httptest.NewRecorder(), handlertest.Request(t, http.MethodHead, "/"), caddyhttp.HandlerFunc(write)); err != nil {
		t.Fatal(err)
	}
	if got := left(t, h); got != 1000 {
		t.Errorf("%d are left, want 1000", got)
	}
}

// What a request uses beyond max_cost is not charged, and a debt is at most the limit.
func TestUsedUnitsAreBounded(t *testing.T) {
	h := settled(t, "{http.response.header.X-Units}", 300)
	if _, err := handlertest.Ask(context.Background(), h, using("1000000")); err != nil {
		t.Fatal(err)
	}
	if got := left(t, h); got != 700 {
		t.Errorf("%d are left, want 700", got)
	}
}

// However a request ends, it is settled once, with what it has used until then.
func TestRequestsAreSettledHoweverTheyEnd(t *testing.T) {
	gone, leave := context.WithCancel(context.Background())
	write := func(w http.ResponseWriter) { _, _ = io.WriteString(w, "0123456789") }
	for name, tt := range map[string]struct {
		ctx  context.Context
		next caddyhttp.HandlerFunc
		used int
	}{
		"nothing":   {context.Background(), func(http.ResponseWriter, *http.Request) error { return nil }, 0},
		"an answer": {context.Background(), func(w http.ResponseWriter, _ *http.Request) error { write(w); write(w); return nil }, 20},
		"copied": {context.Background(), func(w http.ResponseWriter, _ *http.Request) error {
			_, err := io.Copy(w, strings.NewReader("0123456789"))
			return err
		}, 10},
		"an error": {context.Background(), handlertest.Failing(caddyhttp.Error(502, nil)), 0},
		"a stream": {context.Background(), func(w http.ResponseWriter, _ *http.Request) error {
			for range 5 {
				write(w)
				_ = http.NewResponseController(w).Flush()
			}
			return nil
		}, 50},
		"a panic": {context.Background(), func(w http.ResponseWriter, _ *http.Request) error { write(w); panic("x") }, 10},
		"an aborted answer": {context.Background(), func(w http.ResponseWriter, _ *http.Request) error {
			write(w)
			panic(http.ErrAbortHandler)
		}, 10},
		"a client that left": {gone, func(w http.ResponseWriter, _ *http.Request) error { write(w); leave(); return gone.Err() }, 10},
	} {
		t.Run(name, func(t *testing.T) {
			h := settled(t, "bytes", 0)
			func() {
				defer func() { _ = recover() }()
				_, _ = handlertest.Ask(tt.ctx, h, tt.next)
			}()
			if got := left(t, h); got != 1000-tt.used {
				t.Errorf("%d are left, want %d", got, 1000-tt.used)
			}
		})
	}
}

// What a hijacked connection sends to the client counts, and either direction can end alone.
func TestHijackedConnectionsAreSettled(t *testing.T) {
	h := settled(t, "bytes", 0)
	const answer = "HTTP/1.1 101 Switching Protocols\r\n\r\n"
	tunnel := func(w http.ResponseWriter, _ *http.Request) error {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return err
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, answer+"0123456789")
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Errorf("the stream to the client can't be ended: %v", err)
		}
		_, err = io.Copy(io.Discard, conn) // until the client ends its own
		return err
	}
	done := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
		caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "192.0.2.1")
		done <- h.ServeHTTP(w, r, caddyhttp.HandlerFunc(tunnel))
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	if text, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(text), "0123456789") {
		t.Errorf("got %q, %v", text, err)
	}
	_ = conn.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got, want := left(t, h), 1000-len(answer+"0123456789"); got != want {
		t.Errorf("%d are left, want %d", got, want)
	}
}

// A shadow limit is settled as if it were enforced, and refuses nothing.
func TestShadowLimitsAreSettled(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{
		{Name: t.Name(), Per: "ip", Limits: []config.Limit{{Amount: 1000, Window: hour}}, Cost: "100", Settle: "{http.response.header.X-Units}", Shadow: true},
	}})
	for i := range 5 {
		verdict := ""
		w, err := handlertest.Ask(context.Background(), h, func(w http.ResponseWriter, r *http.Request) error {
			verdict, _ = r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).GetString("http.rate_limit." + t.Name() + ".would_refuse")
			return using("450")(w, r)
		})
		if handlertest.IsRefused(w, err) {
			t.Fatalf("request %d is refused: %d, %v", i, w.Code, err)
		}
		if want := i >= 3; (verdict != "") != want { // three have used 450 each
			t.Errorf("request %d: would be refused by %q, want %v", i, verdict, want)
		}
	}
}
