package enforce_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// handlerOf returns a handler with the options of a Caddyfile.
func handlerOf(t testing.TB, options string) *enforce.Handler {
	t.Helper()
	h := handlertest.Provision(t, handlertest.Compile(t, &config.App{MaxKeys: 2_000_000}), handlertest.Parse(t, options))
	t.Cleanup(func() { h.Config.Cleanup() })
	return h
}

// dodges are spellings of a request that looks like a file to Caddy and reaches /login in a
// backend.
var dodges = []string{"/login;.css", "/login;/x.css", "/login%3b.css", "/login%2f.css", "/login%00.css", "/static/../login", "/static/..;/login", "/static/..%2flogin", "/static/%2e%2e/login", `/static/..\login`, "/static/..%5clogin", "//static/x.css", "/static//../login", "/static/.%2e/login", "/static/x%20/login", "/static/%6c.css", "/static/a%ef%bc%8f.css", "/static/a%c0%af.css", "/static/.../x",
	"/login.php/x.css", "/LOGIN.PHP/x.css", "/static/login.php/x.css", "/a/login.aspx/b/x.css", "/login.do/x.css", "/cgi-bin/login/x.css", "/fcgi-bin/x.css", "/php-cgi/x.css", "/cgi-sys/x/y.css", "/login.php.bak/x.css", "/login.php.en/x.css", "/login.php~/x.css", "/index.php8.3/x.css", "/login.php:a/x.css", "/login.php/.css/x.css", // a script in the middle
	"/login%E2%80%A4css/../x.css", "/static/%E2%80%A4%E2%80%A4/login", "/static/%EF%B9%92%EF%B9%92/login", "/static/%EF%BC%8E%EF%BC%8E/login", "/static/%EF%BD%A1%EF%BD%A1/x", "/static%E2%88%95x.css", "/static/a%E2%81%84b.css", // dots and slashes of Unicode
	"/static/%E2%84%80x.css", "/static/%E2%80%8Bx.css", "/static/%E2%84%AA.css", "/login.asp::$DATA.css"}

func TestExemptionsAreForCanonicalTargets(t *testing.T) {
	for options, targets := range map[string]struct{ exempt, counted []string }{
		"exempt path *.css /static/*":                           {[]string{"/x.css", "/a/b.css", "/static/x", "/static/caf%C3%A9.png", "/static/a%20b.png", "/static/", "/static/(1)!.png"}, dodges},
		"exempt path /login.php/*":                              {[]string{"/login.php/x.css", "/login.php/a/b"}, []string{"/login.php/evil.php/x.css", "/x.php/login.php/x.css"}},
		"exempt path /v1.2/* /jquery-3.6.0.min/* /café/* *.css": {[]string{"/v1.2/x.css", "/jquery-3.6.0.min/x.css", "/caf%C3%A9/x.png", "/cafe%CC%81/x.css", "/%E6%96%87%E4%BB%B6/x.css", "/app.js/x.css", "/example.org/x.css"}, nil},
		"exempt path_regexp ^/remote\\.php/.*\\.css$":           {[]string{"/remote.php/x.css"}, []string{"/remote.php/login.php/x.css"}},
		"exempt path_regexp \\.css$|^/static/":                  {[]string{"/x.css", "/static/x"}, dodges},
		"exempt {\npath *.css /static/*\nmethod GET\n}":         {[]string{"/x.css"}, dodges},
		"exempt `path('*.css', '/static/*')`":                   {[]string{"/x.css"}, dodges},
		"exempt `{http.request.uri.path}.endsWith('.css')`":     {[]string{"/x.css"}, dodges},
		"exempt not path /login /login/*":                       {[]string{"/x"}, slices.Concat(dodges, []string{"/login"})},
		"exempt not endpoint /login":                            {[]string{"/x"}, slices.Concat(dodges, []string{"/login", "/login.json"})},
		"exempt /static/*":                                      {[]string{"/static/x.css", "/static"}, slices.Concat(dodges, []string{"/STATIC/x"})},
		"exempt /health":                                        {[]string{"/health", "/health?x=1"}, []string{"/health/", "/Health", "/health.json", "/health;x", "//health", "/%68ealth", "/health/x.css"}},
		"exempt GET /health":                                    {[]string{"/health"}, []string{"/health?_method=post", "/health/"}},
		"exempt {\npath /search\nquery mode=light\n}":           {[]string{"/search?mode=light", "/search?mode=light&a=b"}, []string{"/search?mode=light&mode=heavy", "/search?mode=light&mode[]=heavy", "/search?mode=light;mode=heavy", "/search?mode=light&%256dode=heavy", "/search?mode=light&MODE=heavy"}},
		"exempt /search mode=light":                             {[]string{"/search?mode=light", "/search?mode=light&a=b&a=c"}, []string{"/search?mode=light&mode=heavy", "/search?mode=light&mode[]=heavy", "/search?mode=light;mode=heavy"}},
		"exempt header X-Check yes":                             {nil, nil},
		"exempt method GET":                                     {slices.Concat(dodges, []string{"/x"}), nil},
		"exempt `{http.request.method} == 'GET'`":               {dodges, nil},
	} {
		h := handlerOf(t, options)
		for _, target := range targets.exempt {
			wantExempt(t, h, options, target, true)
		}
		for _, target := range targets.counted {
			wantExempt(t, h, options, target, false)
		}
	}
}

func wantExempt(t *testing.T, h *enforce.Handler, options, target string, want bool) {
	t.Helper()
	if got, err := (&enforce.Evaluation{Verdict: enforce.Verdict{Handler: h, Http: handlertest.Request(t, "GET", target)}}).IsExempt(); got != want || err != nil {
		t.Errorf("%s: %s is exempt: %v, want %v (%v)", options, target, got, want, err)
	}
}

// A zone's exclusion by `not` is an exemption from it.
func TestNotIsForCanonicalTargets(t *testing.T) {
	for match, targets := range map[string]struct{ out, in []string }{
		"not path *.css /static/*":              {[]string{"/x.css", "/static/x"}, append(dodges, "/x")},
		"not endpoint /static/*":                {[]string{"/static/x"}, append(dodges, "/x", "/STATIC/x")},
		"not endpoint /login":                   {[]string{"/login"}, append(dodges, "/login.json", "/login/", "/login/x.css")},
		"{\nnot not path /login\nmethod GET\n}": {nil, []string{"/login"}},
	} {
		z := handlerOf(t, "zone z {\nmatch "+match+"\nlimit 5/1m\n}").Zones[0]
		for target, want := range wanted(targets.in, targets.out) {
			if got, err := z.Matches(&enforce.Evaluation{Verdict: enforce.Verdict{Http: handlertest.Request(t, "GET", target)}}); got != want || err != nil {
				t.Errorf("%s: %s is in the zone: %v, want %v (%v)", match, target, got, want, err)
			}
		}
	}
}

func wanted(yes, no []string) map[string]bool {
	all := make(map[string]bool)
	for _, target := range yes {
		all[target] = true
	}
	for _, target := range no {
		all[target] = false
	}
	return all
}

// Higher costs apply to every spelling, lower ones only to the written spelling.
func TestCostsOfSpellings(t *testing.T) {
	z := handlerOf(t, `zone z {
		limit 100/1m
		cost 2 path *.css
		cost 50 POST /export
		cost 0 /health
		cost 20 /heavy q=*
		cost 5
	}`).Zones[0]
	for target, want := range map[string]int64{
		"/x": 5, "/x.css": 2, "/export": 50, "/export/": 50, "/EXPORT.json": 50, "/export;x": 50, "/export;.css": 50, "/export%2f.css": 50, "/e%2578port": 50, "/index.php/export": 50,
		"/health": 0, "/health/": 5, "/health;/export": 5, "/health.json": 5, "/heavy?q": 20, "/heavy/?q[]=1&%zz": 20, "/heavy": 5,
	} {
		if got, err := z.CostOf(handlertest.Request(t, "POST", target)); got != want || err != nil {
			t.Errorf("%s costs %d, want %d (%v)", target, got, want, err)
		}
	}
}

// A trap bans its visitors, so a guess about extensions or scripts would harm innocent clients.
func TestTrapsMakeNoGuesses(t *testing.T) {
	trap := handlerOf(t, "trap /admin.php /.git/*").Traps[0]
	for target, want := range wanted(
		[]string{"/admin.php", "/ADMIN.php", "//admin.php", "/%61dmin.php", "/admin.php;x", "/.git/config", "/.git", "/x/../.git/config", "/%2egit/config"},
		[]string{"/admin", "/admin/", "/index.php/admin.php", "/docs/..%2fx", "/style/..;/x", "/.gitignore", "/x/admin.php"},
	) {
		if got, err := trap.Matchers.AnyMatchWithError(handlertest.Request(t, "GET", target)); got != want || err != nil {
			t.Errorf("%s is trapped: %v, want %v (%v)", target, got, want, err)
		}
	}
}

func TestSafeWords(t *testing.T) {
	for match, want := range map[string]string{
		"path /login":                        "match /login",
		"path /login /signin":                "match /login /signin",
		"path *.php":                         "match /*.php",
		"query mode=heavy":                   "match /* mode=heavy",
		"{\npath /login\nmethod POST\n}":     "match POST /login",
		"{\npath /x\nquery a=1 b=*\n}":       "match /x a=1 b=*",
		"{\npath /x\nheader X-Y z\n}":        "endpoint /x in the place of path, query and method, beside the other matchers",
		"path /{http.request.host}":          "endpoint [<methods>] <paths> [<key>=<value>] in the place",
		"query a=1 a=2":                      "endpoint [<methods>] <paths> [<key>=<value>] in the place",
		"`path('/x')`":                       "endpoint [<methods>] <paths> [<key>=<value>] in the place",
		"/login":                             "",
		"endpoint /login":                    "",
		"path *":                             "",
		"path /*":                            "",
		"method POST":                        "match POST /*",
		"{\nendpoint /x\nmethod POST\n}":     "match POST /x",
		"not path /login":                    "",
		"`{http.request.header.X-Y} == 'z'`": "",
		"*":                                  "",
		"{\nendpoint POST /login\nheader X-Y z\n}": "",
		"path_regexp ^/login$":                     "endpoint [<methods>] <paths> [<key>=<value>] in the place",
		"path_regexp ^/api/.*":                     "endpoint [<methods>] <paths> [<key>=<value>] in the place",
		"{\npath_regexp ^/api/\nmethod POST\n}":    "endpoint [<methods>] <paths> [<key>=<value>] in the place",
		"path_regexp ^/(a|b)$":                     "endpoint [<methods>] <paths> [<key>=<value>] in the place",
		"url_pattern /books/:id":                   "endpoint [<methods>] <paths> [<key>=<value>] in the place",
		"`url_pattern('/books/:id')`":              "endpoint [<methods>] <paths> [<key>=<value>] in the place",
		"vars {http.request.uri.path} /login":      "endpoint [<methods>] <paths> [<key>=<value>] in the place",
		"vars {http.request.header.X-Y} z":         "",
		"not path_regexp ^/login$":                 "",
	} {
		if _, err := caddy.GetModule("http.matchers.url_pattern"); err != nil && strings.Contains(match, "url_pattern") {
			continue // since Caddy 2.11.5
		}
		z := handlerOf(t, "zone z {\nmatch "+match+"\nlimit 5/1m\n}").Zones[0]
		_, got := matcher.Safer("match", z.Matchers[0])
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("match %s: %q, want %q", match, got, want)
		}
	}
}

// The example is of what the matchers miss: without a path it is none of a path.
func TestExamplesOfMissedSpellings(t *testing.T) {
	for match, want := range map[string]string{
		"path /login":                    "accept, such as /login/ or /login;x: these",
		"{\nmethod POST\npath /login\n}": "accept, such as /login/ or /login;x: these",
		"path_regexp ^/login$":           "accept, such as /login/ or /login;x: these",
		"method GET":                     "accept, such as get or ?_method=GET: these",
		"{\nmethod POST\npath *\n}":      "accept, such as post or ?_method=POST: these",
		"query mode=heavy":               "accept, such as ?mode[]=heavy for mode=heavy: these",
		"`method('GET')`":                "accept: these",
	} {
		z := handlerOf(t, "zone z {\nmatch "+match+"\nlimit 5/1m\n}").Zones[0]
		if got, _ := matcher.Safer("match", z.Matchers[0]); !strings.Contains(got, want) {
			t.Errorf("match %s: %q, want %q", match, got, want)
		}
	}
	for method, target := range map[string]string{"get": "/", "POST": "/?_method=GET"} {
		if got, err := newEndpoint(t, "GET /*").MatchWithError(handlertest.Request(t, method, target)); !got || err != nil {
			t.Errorf("the endpoint misses %s %s: %v", method, target, err)
		}
	}
}

// An endpoint is matched on every request, mostly in its written spelling.
func TestEndpointTakesNoMemory(t *testing.T) {
	m := newEndpoint(t, "POST /api/v1/users/login mode=heavy")
	for _, target := range []string{"/", "/api/v1/users/login", "/api/v1/users/login?mode=heavy&x=1", "/API/V1/users/login.json", "/static/css/style.css"} {
		r := handlertest.Request(t, "GET", target)
		if allocs := testing.AllocsPerRun(100, func() { m.MatchWithError(r) }); allocs != 0 {
			t.Errorf("%s: %v allocations", target, allocs)
		}
	}
}

func newEndpoint(t testing.TB, line string) *matcher.Endpoint {
	t.Helper()
	m := new(matcher.Endpoint)
	if err := m.UnmarshalCaddyfile(caddyfile.NewTestDispenser("endpoint " + line)); err != nil {
		t.Fatal(err)
	}
	if err := m.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	return m
}

// An endpoint with the words of Caddy's matchers matches all requests that they match.
func FuzzEndpointMatchesWhatPathDoes(f *testing.F) {
	for _, pattern := range []string{"/login", "/api/*", "/*.php", "/users/*/login", "/search*", "/", "/*", "/caf%C3%A9", "/a.b/"} {
		for _, target := range slices.Concat(dodges, []string{"/login", "/API/x", "/x.php", "/users/5/login", "/caf%c3%a9", "/a.b/", "/x//y/../../login", "/log%C4%B0n?a=1&a=2", `/x\..\/../login`, "/foo/a%5cb/../../login", "/foo/a%252fb/../../login", "/a;/../login"}) {
			f.Add(pattern, target)
		}
	}
	f.Fuzz(func(t *testing.T, pattern, target string) {
		if strings.ContainsAny(target, " \r\n") || target == "" {
			return
		}
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: example.com\r\n\r\n")))
		if err != nil {
			return
		}
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server))
		m := &matcher.Endpoint{Paths: []string{pattern}}
		if strings.Contains(pattern, "%") || m.Provision(caddy.Context{}) != nil { // in path, % concerns the spelling of targets
			return
		}
		path := caddyhttp.MatchPath{pattern}
		path.Provision(caddy.Context{})
		if matches, _ := path.MatchWithError(r); matches {
			if covers, _ := m.MatchWithError(r); !covers {
				t.Errorf("path %s matches %q, and endpoint %s doesn't", pattern, target, pattern)
			}
		}
		for key, values := range r.URL.Query() {
			query := &matcher.Endpoint{Paths: []string{"/*"}, Query: map[string]string{key: values[0]}}
			if values[0] == "*" || query.Provision(caddy.Context{}) != nil {
				continue
			}
			if covers, _ := query.MatchWithError(r); !covers {
				t.Errorf("query %s=%s matches %q, and endpoint doesn't", key, values[0], target)
			}
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	path := caddyhttp.MatchPath{"/api/v1/login"}
	path.Provision(caddy.Context{})
	endpoint := newEndpoint(b, "/api/v1/login")
	for name, target := range map[string]string{
		"same": "/api/v1/login", "other": "/static/css/style.css", "below": "/api/v1/login/x.css", "encoded": "/api/v1/%6cogin", "hostile": "//a;b%2f%5c" + strings.Repeat("%25;/a.php", 200),
		"hostile64K": "/" + strings.Repeat("a.php/", 11_000),
	} {
		r := handlertest.Request(b, "GET", target)
		for matcher, m := range map[string]caddyhttp.RequestMatcherWithError{"path": path, "endpoint": endpoint} {
			b.Run(name+"/"+matcher, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					m.MatchWithError(r)
				}
			})
		}
	}
}
