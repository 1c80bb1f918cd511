package answer

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/language"
	"github.com/caddy-tally/caddy-tally/internal/page"
)

// For all requests, the page and its header fields are among ten.
func FuzzRefusedPage(f *testing.F) {
	p := &Pages{Refused: page.Refused{Site: page.Site{Name: "Example", Contact: "help@example.com"}}}
	get := func(t testing.TB, r *http.Request) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		if err := p.Refuse(w, r, Shown{Status: http.StatusTooManyRequests, Retry: 42 * time.Second, Reference: page.Reference{Short: "short", Whole: "the-reference"}}); err != nil {
			t.Fatal(err)
		}
		return w
	}
	pages := make(map[string]string)
	for _, texts := range language.All() {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Language", texts.Tag)
		pages[texts.Tag] = get(f, r).Body.String()
	}
	f.Add("/<script>alert(1)</script>?a=b", "example.com", "de-AT", "browser", "https://example.org/")
	f.Add("/", `"><b>`, "x\"><script>,ja", "\x00", "")
	f.Fuzz(func(t *testing.T, uri, host, accept, agent, referer string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RequestURI, r.URL.Path, r.Host = uri, uri, host
		r.Header = http.Header{"Accept-Language": {accept}, "User-Agent": {agent}, "Referer": {referer}, "Cookie": {agent}}
		w := get(t, r)
		tag := w.Header().Get("Content-Language")
		if w.Code != http.StatusTooManyRequests || w.Body.String() != pages[tag] {
			t.Errorf("status %d, %q, %s", w.Code, tag, w.Body)
		}
	})
}

// seenBy is a matcher that notes the requests that it is asked about.
type seenBy struct{ requests *[]string }

func (s seenBy) MatchWithError(r *http.Request) (bool, error) {
	repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	status, _ := repl.GetString("http.error.status_code")
	*s.requests = append(*s.requests, status+" "+r.Method+" "+r.URL.Path+" "+repl.ReplaceAll("{http.request.uri.path}", ""))
	return false, nil
}

// Matchers of error routes see the request as the client has sent it, as they do when Caddy's
// server asks them. After that it is as it was.
func TestErrorRoutesAreAskedAboutTheRequestAsSent(t *testing.T) {
	var seen []string
	route := caddyhttp.Route{MatcherSets: caddyhttp.MatcherSets{caddyhttp.MatcherSet{seenBy{&seen}}}}
	server := &caddyhttp.Server{Errors: &caddyhttp.HTTPErrorConfig{Routes: caddyhttp.RouteList{route}}}
	w := httptest.NewRecorder()
	r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodPost, "/sent", nil), caddy.NewReplacer(), w, server)
	r.Method, r.URL.Path, r.RequestURI = http.MethodGet, "/rewritten", "/rewritten"
	if answersErrors(r, errRefused) {
		t.Error("a route that doesn't match counts as one that answers")
	}
	if want := "429 POST /sent /sent"; len(seen) != 1 || seen[0] != want {
		t.Errorf("the matcher sees %q, want %q", seen, want)
	}
	if r.Method != http.MethodGet || r.URL.Path != "/rewritten" || r.RequestURI != "/rewritten" {
		t.Errorf("afterwards the request is %s %s %s", r.Method, r.URL.Path, r.RequestURI)
	}
}
