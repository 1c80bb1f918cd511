package enforce_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
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
func answerCached(t *testing.T, h *enforce.Handler, path, accept string) *httptest.ResponseRecorder {
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
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Per: enforce.PerIP, Limits: []config.Limit{{Amount: 1, Window: 3600e9}}}}})
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
	h := handlertest.Start(t, &config.App{Session: new(config.Session)}, &config.Handler{Zones: []*config.Zone{{Name: "z", Per: enforce.PerClient, Limits: []config.Limit{{Amount: 1, Window: 3600e9}}}}})
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
	new(answer.Options).AskAgain(w, httptest.NewRequest(http.MethodGet, "/", nil))
	wantNotStored(t, "425", w.Header())
}

// Caddy's header directive writes into the slices of header values. That must not affect other
// requests.
func TestHeaderValuesAreTheResponsesOwn(t *testing.T) {
	h := benchHandler(t, config.Limit{Amount: 10, Window: 3600e9})
	spoil := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		for _, values := range w.Header() {
			for i := range values {
				values[i] = "spoiled"
			}
		}
		return nil
	})
	for range 2 {
		r, vars, w := benchRequest()
		vars[caddyhttp.ClientIPVarKey] = "192.0.2.1"
		look := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			if got := w.Header().Get("RateLimit-Policy"); got != `"bench";q=10;w=3600` {
				t.Errorf("RateLimit-Policy: %s", got)
			}
			return spoil(w, r)
		})
		if err := h.ServeHTTP(w, r, look); err != nil {
			t.Fatal(err)
		}
	}
}
