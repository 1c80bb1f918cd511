package tally

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
)

// cachedPage maps header fields to values for pages, set by Caddy's header directive, which runs
// before the handler, and to their expected values in an answer for a single client.
var cachedPage = map[string]struct{ page, refusal string }{
	"Cache-Control":                {"public, max-age=3600", "no-store"},
	"Cdn-Cache-Control":            {"max-age=3600", "no-store"},
	"Cloudflare-Cdn-Cache-Control": {"max-age=3600", "no-store"},
	"Surrogate-Control":            {"max-age=3600", "no-store"},
	"Edge-Control":                 {"!no-store, cache-maxage=60m", "no-store"},
	"X-Accel-Expires":              {"3600", "0"},
	"Expires":                      {"Tue, 01 Jan 2030 00:00:01 GMT", ""},
}

// answerCached makes a handler answer a request with these header fields set.
func answerCached(t *testing.T, h *Handler, path, accept string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	for field, says := range cachedPage {
		w.Header().Set(field, says.page)
	}
	r := httptest.NewRequest(http.MethodGet, "http://example.com"+path, nil)
	r.Header.Set("Accept", accept)
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "192.0.2.1")
	if err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })); err != nil {
		t.Fatal(err)
	}
	return w
}

func wantNotStored(t *testing.T, what string, h http.Header) {
	t.Helper()
	for field, says := range cachedPage {
		if got := h.Get(field); got != says.refusal {
			t.Errorf("%s: %s is %q, want %q", what, field, got, says.refusal)
		}
	}
}

// Header fields for pages must not make a cache keep one client's refusal for others (RFC 6585,
// section 4).
func TestCachesKeepNoRefusal(t *testing.T) {
	h := &Handler{Handler: config.Handler{Zones: []*config.Zone{{Name: "z", Per: enforce.PerIP, Limits: []config.Limit{{Amount: 1, Window: 3600e9}}}}}}
	if err := h.Provision(contextOf(t, new(config.App))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.run.App.Cleanup() })
	h.run.App.Started()
	allowed := answerCached(t, h, "/", "*/*").Header()
	for field, says := range cachedPage {
		if got := allowed.Get(field); got != says.page {
			t.Errorf("an allowed request is answered with %s %q", field, got)
		}
	}
	for _, accept := range []string{"*/*", httpfield.ProblemType} {
		w := answerCached(t, h, "/", accept)
		if w.Code != http.StatusTooManyRequests {
			t.Errorf("%s: status %d", accept, w.Code)
		}
		wantNotStored(t, accept, w.Header())
	}
}

// Nor one client's challenge, or answers below its path.
func TestCachesKeepNoChallenge(t *testing.T) {
	h := &Handler{Handler: config.Handler{Zones: []*config.Zone{{Name: "z", Per: enforce.PerClient, Limits: []config.Limit{{Amount: 1, Window: 3600e9}}}}}}
	if err := h.Provision(contextOf(t, &config.App{Session: new(config.Session)})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.run.App.Cleanup() })
	h.run.App.Started()
	for path, status := range map[string]int{sessionPath: http.StatusOK, sessionPath + "x": http.StatusNotFound} {
		w := answerCached(t, h, path, "text/html")
		if w.Code != status {
			t.Errorf("%s: status %d, want %d", path, w.Code, status)
		}
		wantNotStored(t, path, w.Header())
	}
}

// Nor a 425 answer.
func TestCachesKeepNoRequestToAskAgain(t *testing.T) {
	w := httptest.NewRecorder()
	for field, says := range cachedPage {
		w.Header().Set(field, says.page)
	}
	enforce.AskAgain(w, httptest.NewRequest(http.MethodGet, "/", nil))
	wantNotStored(t, "425", w.Header())
}
