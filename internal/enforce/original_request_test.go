package enforce_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// rewritten returns a request that handlers have rewritten: sent and to are each a method and a
// target. An empty to means that the request is not rewritten.
func rewritten(t testing.TB, sent, to string) *http.Request {
	t.Helper()
	method, target, _ := strings.Cut(sent, " ")
	r := handlertest.Request(t, method, target)
	if to != "" {
		method, target, _ = strings.Cut(to, " ")
		r.Method, r.RequestURI = method, target
		r.URL.Path, r.URL.RawQuery, _ = strings.Cut(target, "?")
	}
	return r
}

// A limit applies if the original or the rewritten request matches, each as a whole; an exemption
// only if both match.
func TestRewrittenRequestsMatchAsTheyWereSent(t *testing.T) {
	for options, requests := range map[string]map[[2]string]bool{
		"match POST /login": {
			{"POST /login", "POST /index.php"}:         true,
			{"POST /login.json", "POST /index.php"}:    true,
			{"POST /api/login", "POST /login"}:         true,
			{"POST /login", "GET /login"}:              true,
			{"GET /login", "POST /login"}:              true,
			{"GET /login", "POST /index.php"}:          false,
			{"POST /x", "POST /index.php"}:             false,
			{"POST /login", ""}:                        true,
			{"GET /login", ""}:                         false,
			{"GET /login?_method=POST", "GET /x.php"}:  true,
			{"GET /x?_method=POST", "GET /login?a=b"}:  false,
			{"POST /x?page=login", "POST /login?id=1"}: true,
		},
		"match /search mode=heavy": {
			{"GET /search?mode=heavy", "GET /index.php"}: true,
			{"GET /s/heavy", "GET /search?mode=heavy"}:   true,
			{"GET /search", "GET /x?mode=heavy"}:         false,
		},
		"match not endpoint /static/*": {
			{"GET /static/x", "GET /static/x.gz"}:  false,
			{"GET /login", "GET /static/x"}:        true,
			{"GET /static/x", "GET /index.php"}:    true,
			{"GET /static/x", "GET /static/../y"}:  true,
			{"GET /static/%78", "GET /static/x.y"}: true,
		},
		"match not path /static/*": {
			{"GET /static/x", "GET /static/x.gz"}:  false,
			{"GET /login", "GET /static/x"}:        true,
			{"GET /static/%78", "GET /static/x.y"}: true,
		},
		"match not method GET": {
			{"GET /x", "GET /y"}:  false,
			{"POST /x", "GET /x"}: true,
		},
	} {
		z := handlerOf(t, "zone z {\n"+options+"\nlimit 5/1m\n}").Zones[0]
		for request, want := range requests {
			e := &enforce.Evaluation{Verdict: enforce.Verdict{Http: rewritten(t, request[0], request[1])}}
			if got, err := z.Matches(e); got != want || err != nil {
				t.Errorf("%s: %q is in the zone: %v, want %v (%v)", options, request, got, want, err)
			}
		}
	}
}

func TestExemptionsAreForRequestsAsTheyWereSent(t *testing.T) {
	for options, requests := range map[string]map[[2]string]bool{
		"exempt /static/*": {
			{"GET /static/x", ""}:                  true,
			{"GET /static/x", "GET /static/x.gz"}:  true,
			{"GET /login", "GET /static/x"}:        false,
			{"GET /static/x", "GET /index.php"}:    false,
			{"GET /Static/x", "GET /static/x"}:     false,
			{"GET /static/../x", "GET /static/x"}:  false,
			{"GET /static/x", "GET /static//../x"}: false,
		},
		"exempt path *.css": {
			{"GET /x.css", "GET /y.css"}:        true,
			{"GET /login", "GET /x.css"}:        false,
			{"GET /login;/x.css", "GET /x.css"}: false,
		},
		"exempt not path /login": {
			{"GET /x", "GET /index.php"}:     true,
			{"GET /login", "GET /index.php"}: false,
		},
		"exempt `path('/x')`": {
			{"GET /x", "GET /x?a=b"}: true,
			{"GET /login", "GET /x"}: false,
		},
		"exempt `{http.request.uri.path} == '/x'`": {
			{"GET /x", ""}:           true,
			{"GET /login", "GET /x"}: false,
		},
		"exempt header !X-Y": {{"GET /login", "GET /x"}: true},
		"exempt method GET": {
			{"GET /login", "GET /x"}:  true,
			{"POST /login", "GET /x"}: false,
		},
	} {
		h := handlerOf(t, options)
		for request, want := range requests {
			e := &enforce.Evaluation{Verdict: enforce.Verdict{Handler: h, Http: rewritten(t, request[0], request[1])}}
			if got, err := e.IsExempt(); got != want || err != nil {
				t.Errorf("%s: %q is exempt: %v, want %v (%v)", options, request, got, want, err)
			}
		}
	}
}

func TestCostsAndTrapsOfRewrittenRequests(t *testing.T) {
	h := handlerOf(t, "trap /admin.php\nzone z {\nlimit 100/1m\ncost 50 POST /export\ncost 0 /health\ncost 5\n}")
	for request, want := range map[[2]string]int64{
		{"POST /export", "POST /index.php"}:  50,
		{"POST /a/export", "POST /export"}:   50,
		{"GET /health", "GET /health?a=b"}:   0,
		{"GET /login", "GET /health"}:        5,
		{"GET /health", "GET /index.php?x="}: 5,
	} {
		r := rewritten(t, request[0], request[1])
		if got, err := h.Zones[0].CostOf(r); got != want || err != nil {
			t.Errorf("%q costs %d, want %d (%v)", request, got, want, err)
		}
	}
	for request, want := range map[[2]string]bool{
		{"GET /admin.php", "GET /index.php"}:   true,
		{"GET /a/admin.php", "GET /admin.php"}: true,
		{"GET /x", "GET /index.php"}:           false,
	} {
		if got, err := h.Traps[0].Matchers.AnyMatchWithError(rewritten(t, request[0], request[1])); got != want || err != nil {
			t.Errorf("%q is trapped: %v, want %v (%v)", request, got, want, err)
		}
	}
}

// A request with a method override has another method for some backends.
func TestMethodMatchersMindOverrides(t *testing.T) {
	handlers := make(map[string]*enforce.Handler)
	for _, exempt := range []string{"method GET", "`{http.request.method} == 'GET'`", "not method POST"} {
		handlers[exempt] = handlerOf(t, "exempt "+exempt)
	}
	zone := handlerOf(t, "zone z {\nmatch not method GET\nlimit 5/1m\n}").Zones[0]
	for _, c := range []struct {
		target, field string
		overridden    bool
	}{
		{"/x", "", false},
		{"/x?a=_method", "X-Method: POST", false},
		{"/login;x", "", false},
		{"/x?_method=POST", "", true},
		{"/x?_HttpMethod=DELETE", "", true},
		{"/x", "X-HTTP-Method-Override: POST", true},
		{"/x", "X-HTTP-Method: POST", true},
		{"/x", "X-Method-Override: POST", true},
	} {
		r := handlertest.Request(t, "GET", c.target)
		if name, value, ok := strings.Cut(c.field, ": "); ok {
			r.Header.Set(name, value)
		}
		for exempt, h := range handlers {
			if got, err := (&enforce.Evaluation{Verdict: enforce.Verdict{Handler: h, Http: r}}).IsExempt(); got == c.overridden || err != nil {
				t.Errorf("%s: GET %s %s is exempt: %v (%v)", exempt, c.target, c.field, got, err)
			}
		}
		if got, err := zone.Matches(&enforce.Evaluation{Verdict: enforce.Verdict{Http: r}}); got != c.overridden || err != nil {
			t.Errorf("GET %s %s is in the zone: %v, want %v (%v)", c.target, c.field, got, c.overridden, err)
		}
	}
}

func TestWordsBehindPathsAreErrors(t *testing.T) {
	for line, word := range map[string]string{
		"/search q":            "q",
		"/login post":          "post",
		"/login ip":            "ip",
		"/wp-login.php ban 1h": "ban",
		"/wp-login.php 1h":     "1h",
		"/login method POST":   "method",
		"/a mode=heavy /b":     "/b",
	} {
		want := fmt.Sprintf("got %q behind the path: a condition on the query has a value, such as mode=heavy or q=*; the syntax is endpoint [<methods...>] <paths...>", word)
		err := new(matcher.Endpoint).UnmarshalCaddyfile(caddyfile.NewTestDispenser("endpoint " + line))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}
