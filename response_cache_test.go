package tally

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Caddy's header directive runs before the handler. What it says of pages must not
// have a cache keep one client's refusal for all others (RFC 6585, section 4).
func TestCachesKeepNoRefusal(t *testing.T) {
	h := &Handler{Zones: []*Zone{{Name: "z", Per: perIP, Limits: []Limit{{Amount: 1, Window: 3600e9}}}}}
	if err := h.Provision(contextOf(t, new(App))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.app.Cleanup() })
	startedHandler{h.app}.Handle(t.Context(), caddy.Event{})
	answer := func(accept string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		w.Header().Set("Cache-Control", "public, max-age=3600")
		r := httptest.NewRequest("GET", "http://example.com/", nil)
		r.Header.Set("Accept", accept)
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
		caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "192.0.2.1")
		if err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })); err != nil {
			t.Fatal(err)
		}
		return w
	}
	if control := answer("*/*").Header().Get("Cache-Control"); control != "public, max-age=3600" {
		t.Errorf("an allowed request is answered with Cache-Control %q", control)
	}
	for _, accept := range []string{"*/*", problemType} {
		if w := answer(accept); w.Code != http.StatusTooManyRequests || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: status %d, Cache-Control %q", accept, w.Code, w.Header().Get("Cache-Control"))
		}
	}
}
