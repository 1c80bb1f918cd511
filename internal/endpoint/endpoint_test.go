package endpoint

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// received returns the request that Go's server makes from a request target.
func received(t testing.TB, method, target string) *Request {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	return &Request{Method: method, Path: u.Path, RawPath: u.RawPath, Query: u.RawQuery, Odd: u.Host != "" || u.Opaque != ""}
}

func mustNew(t testing.TB, methods []string, path string, query map[string]string) *Endpoint {
	t.Helper()
	e, err := New(methods, []string{path}, query)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestSpellingsOfPath(t *testing.T) {
	for pattern, targets := range map[string]struct{ covered, other []string }{
		"/login": {
			covered: []string{
				"/login", "/login/", "/LOGIN", "/Login", "//login", "/login//", "/./login", "/login/.", "/x/../login", "/login/x/..",
				"/login.json", "/login%2ejson", "/login.json.gz", "/login.", "/login%20", "/login%09", "/login%0a", "/%20login", "/login%2e%20",
				"/login;x", "/login;x=y/", "/login;x%2fy", "/login%3bx", "/;x/login", "/;x=/y/../login",
				"/%6cogin", "/%6Cogin", "/%256cogin", "/%25256cogin", "/%2525252525256cogin", "/%u006cogin"[:1] + "login",
				"/login%2f", "/login%2F%2F", "/login%252f", "/%2flogin", "/login%5c", `/\login`, `/login\`, "/%5clogin", "/x%2f..%2flogin",
				"/login%00", "/login%00.css", "/login%2500", "/login%3f", "/login%3fa=b", "/login%23x", "/login#x",
				"/login/x.php", "/login/x.css", "/login/a/b.js", "/login.php/x", "/login.php/x/y", "/login.php", "/login.json/x.css", "/login/index.php",
				"/login/index.html", "/login/index", "/login/index/5", "/login.do", "/login/default.aspx",
				"/index.php/login", "/app/index.php/login/", "/index.php/login.json", "/cgi-bin/app.fcgi/login", "/index.php%2flogin",
				"//host/login", `/\host/login`, "//host:80/login", "///host/login", "http://host/login", "http://host//login",
				"/lo%c0%a7in"[:3] + "gin", "/%c0%aflogin", "/l%c1%afgin", "/login%c0%80", "/%e0%81%acogin", "/%ef%bc%8flogin", "/%ef%bd%8cogin",
				"/lo%c4%b1gin"[:3] + "gin", "/log%c4%b1n", "/log%c4%b0n", "/login::$DATA",
				"/a/..%2flogin", "/a/%2e%2e/login", "/a/..;/login", `/a/..\login`, "/a/b%2fc/../../login", `/a\b/../login`, "/a//../login",
				"/" + strings.Repeat("%41", 3000), "/" + strings.Repeat("a", 5000),
			},
			other: []string{
				"/", "/logins", "/log", "/xlogin", "/login-2", "/login2.json", "/login/x", "/login/5", "/login/jane@example.com", "/login/left-pad-1.3.0",
				"/api/login", "/v1.2/login", "/example.com/login", "/login/x/y", "/login/indexes", "/log/in", "/log%2fin", "/x/../y", "/../y/login", "/" + strings.Repeat("a", 2000),
				"/a%20b/c", "/caf%c3%a9", "/a;b=c/d", "/a/b.css", "http://host/x", "//host", "/..a/b", "/login/../x",
			},
		},
		"/login.php": {
			covered: []string{"/login.php", "/login.php/x", "/login.php/", "/LOGIN.PHP", "/login.php.json", "/login", "/login/x", "/login.php%00.css", "/login%2ephp", "/login.php;x", "/index.php/login.php", "/login.php/x.css"},
			other:   []string{"/login.html", "/login.phpx", "/logins", "/", "/index.php", "/x.php"},
		},
		"/api/*": {
			covered: []string{"/api", "/api/", "/api/x", "/api/x/y.z", "/API/x", "/api.php/x", "/api;v=1/x", "/api%2fx", "/%61pi/x", `/api\x`, "/index.php/api/x", "//h/api/x", "/api/../x", "/api.json"},
			other:   []string{"/", "/apis", "/apis/x", "/x/api/y", "/v1/api", "/api-2/x", "/api.2/x"},
		},
		"/v1/users/*": {
			covered: []string{"/v1/users", "/v1/users/5", "/v1.php/users/5", "/v1//users/5"},
			other:   []string{"/v1", "/v1.2/users/5", "/v2/users/5", "/users/5"},
		},
		"/users/*/login": {
			covered: []string{"/users/5/login", "/users/5/6/login", "/users/5/login/", "/users/5/login.json", "/users/5/LOGIN", "/index.php/users/5/login", "/users/5;x/login;y", "/users/5/login/x.css", "/users/a%00b/login", "/users/5/login.php/x"},
			other:   []string{"/users/5", "/users/login", "/users/5/logins", "/user/5/login", "/users/5/login/x"},
		},
		"/*.php": {
			covered: []string{"/x.php", "/a/b/x.php", "/x.PHP", "/x.php/y", "/x.php/y.css", "/x%2ephp", "/x;.php", "/x.php;y", "/x%00.php", "/x.php%00", "/x.php.en", "/.php", "/login.php/../x.php"},
			other:   []string{"/", "/x", "/x.phpx", "/x.php5", "/php", "/x.html"},
		},
		"/search*": {
			covered: []string{"/search", "/searches", "/search/x", "/SEARCH.json", "/index.php/search"},
			other:   []string{"/", "/sear", "/x/search"},
		},
		"/": {
			covered: []string{"/", "//", "/.", "/index.php", "/index.html", "/%2f", "/;x", "/?", "/index.php/", "//host"},
			other:   []string{"/x", "/app.css", "/x/index.php", "/x.php"},
		},
		"/*": {covered: []string{"/", "/x", "/x/y;z"}},
		"/caf%C3%89": {
			covered: []string{"/caf%c3%a9", "/CAF%C3%89", "/caf%c3%a9.json", "/caf%25c3%25a9"},
			other:   []string{"/cafe", "/caf", "/caf%e9"},
		},
		"/.env": {covered: []string{"/.env", "/.ENV", "/.env.js", "/%2eenv"}, other: []string{"/", "/env", "/x/.env"}},
	} {
		e := mustNew(t, nil, pattern, nil)
		for _, target := range targets.covered {
			if !e.Covers(received(t, "GET", target)) {
				t.Errorf("%s does not cover %s", pattern, target)
			}
		}
		for _, target := range targets.other {
			if e.Covers(received(t, "GET", target)) {
				t.Errorf("%s covers %s", pattern, target)
			}
		}
	}
}

// A trap bans its visitors, so it makes no guesses.
func TestNamesDoesNotGuess(t *testing.T) {
	e := mustNew(t, nil, "/admin.php", nil)
	for _, target := range []string{"/admin.php", "/ADMIN.PHP", "/%61dmin.php", "//admin.php", "/admin.php;x", "/admin.php/", "/x/../admin.php", "/admin%2ephp"} {
		if !e.Names(received(t, "GET", target)) {
			t.Errorf("it does not name %s", target)
		}
	}
	for _, target := range []string{"/admin", "/admin.php/x", "/index.php/admin.php", "/admin.php.json", "/style.css/..%2fx", "/" + strings.Repeat("%41", 3000)} {
		if e.Names(received(t, "GET", target)) {
			t.Errorf("it names %s", target)
		}
	}
}

func TestIsTakesOnlyWhatIsWritten(t *testing.T) {
	for pattern, targets := range map[string]struct{ exact, not []string }{
		"/health":       {exact: []string{"/health", "/health?x"}, not: []string{"/health/", "/Health", "/health.json", "//health", "/%68ealth", "/health;x", "/x/../health", "/health/x.css", "http://h/health", "/index.php/health"}},
		"/static/*":     {exact: []string{"/static/x", "/static/x/y.css", "/static", "/static/", "/static/a%20b", "/static/libstdc%2b%2b6_1%7erc1.deb"}, not: []string{"/static/../x", "/static/x;y", "/static//x", "/static/%2e%2e/x", `/static/\x`, "/static/x%2fy", "/Static/x", "/static/..;/x", "/static/a%00", "/static/%61"}},
		"/*.css":        {exact: []string{"/x.css"}, not: []string{"/a/x.css", "/login;.css", "/login%2f.css", "/login%00.css"}},
		"/a/*/b":        {exact: []string{"/a/x/b"}, not: []string{"/a/x/y/b", "/a/b"}},
		"/caf%C3%A9":    {exact: []string{"/caf%C3%A9", "/caf%c3%a9"}, not: []string{"/cafe", "/CAF%C3%A9"}},
		"/with-(marks)": {exact: []string{"/with-(marks)"}},
	} {
		e := mustNew(t, nil, pattern, nil)
		for _, target := range targets.exact {
			if !e.Is(received(t, "GET", target)) {
				t.Errorf("%s is not %s", pattern, target)
			}
		}
		for _, target := range targets.not {
			if e.Is(received(t, "GET", target)) {
				t.Errorf("%s is %s", pattern, target)
			}
		}
	}
}

func TestQuery(t *testing.T) {
	for _, c := range []struct {
		key, value  string
		holds, fail []string
	}{
		{
			"mode", "heavy",
			[]string{
				"mode=heavy", "a=b&mode=heavy", "mode=heavy&a;b", "a;mode=heavy", "mode=heavy&x=%zz", "mode[]=heavy", "mode[]x=junk]=heavy", "mode%5B%5Dx=junk%5d=heavy", "mode[]x=a=b[]=heavy", "mode[0]=heavy", "mode%5b%5d=heavy", "mode[x][y]=heavy",
				"[mode]=heavy", "mode=light&mode=heavy", "mode=heavy&mode=light", "MODE=heavy", "mode=HEAVY", "mo%64e=heavy", "mode=%68eavy", "mode=%2568eavy", "mode=heavy%00x", "mode%00x=heavy",
				"+mode=heavy", "%20mode=heavy", "mode=+heavy+", "mode=hea%vy", "mo%zzde=heavy", "mode=%u0068eavy", "mode=%ef%bd%88eavy", "&&mode=heavy&&", "mode[=heavy", "mode+=heavy",
				"mode=heavy#x", "mode]=heavy", "?mode=heavy", "a?mode=heavy", "mode=heavy?", "[]mode=heavy", "mode#x=heavy",
			},
			[]string{"", "mode", "mode=", "mode=light", "modes=heavy", "xmode=heavy", "a=mode=heavy", "heavy=mode", "mode=heavyweight", "x[mode]=heavy", "mode-x=heavy", "model=heavy&mode=x"},
		},
		{"q", "*", []string{"q", "q=", "q=x", "a&q", "Q=1", "q[]=", "%71"}, []string{"", "a=q", "qq=1", "x[q]=1"}},
		{"sort.by", "a b", []string{"sort.by=a+b", "sort_by=a%20b", "sort%2eby=a b", "sort+by=a+b"}, []string{"sortby=a+b", "sort.by=ab"}},
		{"a[]", "1", []string{"a=1", "a[]=1", "a[9]=1"}, []string{"b[]=1", "a=2"}},
	} {
		e := mustNew(t, nil, "/search", map[string]string{c.key: c.value})
		for _, query := range c.holds {
			if !e.Covers(&Request{Path: "/search", Query: query}) {
				t.Errorf("%s=%s does not cover %q", c.key, c.value, query)
			}
		}
		for _, query := range c.fail {
			if e.Covers(&Request{Path: "/search", Query: query}) {
				t.Errorf("%s=%s covers %q", c.key, c.value, query)
			}
		}
	}
	both := mustNew(t, nil, "/search", map[string]string{"mode": "heavy", "q": "*"})
	if both.Covers(received(t, "GET", "/search?mode=heavy")) || !both.Covers(received(t, "GET", "/search?q&mode=heavy")) {
		t.Error("not all conditions must hold")
	}
	if !mustNew(t, nil, "/search", map[string]string{"mode": "heavy"}).Covers(received(t, "GET", "/search%3fmode=heavy")) {
		t.Error("a query behind an encoded question mark is not covered")
	}
}

func TestIsWithQuery(t *testing.T) {
	e := mustNew(t, nil, "/search", map[string]string{"mode": "light"})
	for query, want := range map[string]bool{
		"mode=light": true, "mode=light&x=1": true, "": false, "mode=light&mode=heavy": false, "mode=light&mode[]=heavy": false, "mode=light;mode=heavy": false, "mode=light&mode[]x=junk]=heavy": false, "mode=light#x": false, "mode=light&?mode=heavy": false,
		"mode=Light": false, "mode=%6cight": false, "mode=light&Mode=heavy": false, "mode=light&%zz=heavy": false,
	} {
		if got := e.Is(&Request{Path: "/search", Query: query}); got != want {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
}

// Real routers accept these spellings, but they weren't counted: a semicolon begins the query for
// Fastify and restify, h3 and Nitro skip a `=` before a name, ASP.NET removes sessions from the
// path, and method-override uses the first method of a list.
func TestSpellingsOfRealRoutersAreCounted(t *testing.T) {
	login, search := mustNew(t, nil, "/login", nil), mustNew(t, nil, "/search", map[string]string{"mode": "heavy"})
	aspx, glob := mustNew(t, nil, "/login.aspx", nil), mustNew(t, nil, "/users/*/login", nil)
	for target, e := range map[string]*Endpoint{
		"/login;/x": login, "/login;a/b": login, "/login;a/b/c.css": login, "/%6cogin;a/b?c": login, "/users/5/login;a/b": glob,
		"/search;a/b?mode=heavy": search, "/search;mode=heavy": search, "/search;a=b&mode=heavy": search, "/search;mo%64e=%68eavy": search, "/search/;mode=heavy?x": search, "/search;mode=heavy?mode=light": search,
		"/search?=mode=heavy": search, "/search?==mode=heavy": search, "/search?a&=mode=heavy": search, "/search?a;=mode=heavy": search,
		"/(S(x))/login.aspx": aspx, "/(s(abc))/login.aspx": aspx, "/(A(x)F(y))/(S(x))/login": login, "/%28S(x))/login.aspx": aspx, "/(S(x))//login": login,
	} {
		r := received(t, "GET", target)
		if !e.Covers(r) || e.Is(r) || r.IsCanonical() && r.HasCanonicalQuery() {
			t.Errorf("%s: covers %v, is %v, canonical %v with query %v", target, e.Covers(r), e.Is(r), r.IsCanonical(), r.HasCanonicalQuery())
		}
	}
	for target, e := range map[string]*Endpoint{
		"/x;/login": login, "/x;mode=heavy": search, "/search;mode=light": search, "/search;mode": search, "/search?=mode": search, "/(S(x))/x": login, "/(x)/login": login, "/((S(x)/login": login,
	} {
		if e.Covers(received(t, "GET", target)) {
			t.Errorf("%s is covered", target)
		}
	}
	if r := received(t, "GET", "/static/(1)!/(a)/b.png"); !r.IsCanonical() {
		t.Error("brackets in names aren't canonical any more")
	}
	for field, want := range map[string]bool{"DELETE, x": true, "DELETE,x": true, "x, delete": true, ", DELETE": true, "x": false, "": false, "DELETEx": false, strings.Repeat("x,", 100): true} {
		for _, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
			r := &Request{Method: "POST", Path: "/x", Header: map[string][]string{name: {field}}}
			if got := mustNew(t, []string{"DELETE"}, "/x", nil).Covers(r); got != want {
				t.Errorf("%s: %s covers: %v, want %v", name, field, got, want)
			}
			if mustNew(t, []string{"POST"}, "/x", nil).Is(r) {
				t.Errorf("%s: %s is a POST to all backends", name, field)
			}
		}
	}
}

// A path with disputed `..` counted for every endpoint.
func TestDisputedPathCountsForWhatItNames(t *testing.T) {
	for path, want := range map[string]struct{ covered, other []string }{
		"/files/a%2f..%2fb":              {[]string{"/files/*", "/b", "/files/b", "/*", "/files", "/*b"}, []string{"/login", "/", "/api/*", "/*.php", "/b/files"}},
		"/x%2f..%2flogin":                {[]string{"/login", "/login.php", "/*/login", "/log*"}, []string{"/", "/signin", "/login/y"}},
		"/a/..;/b%2f..%2flogin.json/x":   {[]string{"/login", "/a/b/login", "/a/login", "/b/login"}, []string{"/login/a", "/c/login"}},
		"/x%2f..":                        {[]string{"/", "/x", "/*"}, []string{"/login"}},
		"/x%2f../index.php":              {[]string{"/"}, []string{"/login"}},
		"/users/a;/../5/%2e%2e%2f/login": {[]string{"/users/*/login", "/users/5/login", "/login"}, []string{"/users/6/login"}},
	} {
		r := received(t, "GET", path)
		if !r.reading().disputed {
			t.Errorf("%s isn't disputed", path)
		}
		for _, pattern := range want.covered {
			if !mustNew(t, nil, pattern, nil).Covers(r) {
				t.Errorf("%s isn't counted for %s", path, pattern)
			}
		}
		for _, pattern := range want.other {
			if mustNew(t, nil, pattern, nil).Covers(r) {
				t.Errorf("%s is counted for %s", path, pattern)
			}
		}
	}
}

// A WebSocket over HTTP/2 and HTTP/3 begins with CONNECT, and reaches a backend as a GET.
func TestTunnelIsGetAsWell(t *testing.T) {
	for _, c := range []struct {
		methods       []string
		covers, exact bool
	}{{[]string{"GET"}, true, false}, {[]string{"CONNECT"}, true, false}, {[]string{"POST"}, false, false}, {nil, true, true}} {
		e := mustNew(t, c.methods, "/ws", nil)
		r := &Request{Method: "CONNECT", Path: "/ws", Tunnel: true}
		if e.Covers(r) != c.covers || e.Names(r) != c.covers || e.Is(r) != c.exact || !r.OverridesMethod() {
			t.Errorf("%v: covers %v, is %v", c.methods, e.Covers(r), e.Is(r))
		}
	}
	if mustNew(t, []string{"GET"}, "/ws", nil).Covers(&Request{Method: "CONNECT", Path: "/ws"}) {
		t.Error("a plain CONNECT is a GET")
	}
}

// A star in a value is any text, as in a path; it was taken literally, so that such an endpoint
// matched nothing.
func TestStarInValueIsAnyText(t *testing.T) {
	for value, values := range map[string]struct{ exact, covered, other []string }{
		"/wp/v2/search*": {
			exact:   []string{"/wp/v2/search", "/wp/v2/searches"},
			covered: []string{"%2Fwp%2fv2%2Fsearch", "/WP/v2/search", "/wp/v2/search/5", "+/wp/v2/search%00", "/wp/v2/search/../x", "/wp/v2/search%252f5", "/wp/%zz"},
			other:   []string{"", "/wp/v2/users", "x/wp/v2/search", "/wp/v2", "wp/v2/search"},
		},
		"/wp/v2/*": {
			exact:   []string{"/wp/v2/users", "/wp/v2/users/5", "/wp/v2"},
			covered: []string{"/wp/v2/../x", "/wp/v2/users//5", "/wp/v2/%2e%2e", "%2fwp/v2"},
			other:   []string{"/wp/v3", "/wp", "/wp/v2x"},
		},
		"a*c*e": {
			exact:   []string{"ace", "abcde", "aXcYe"},
			covered: []string{"ABCDE", "a/c/e", "a%62cde", "a..ce"},
			other:   []string{"abcd", "bace", "aec", "ae"},
		},
	} {
		e := mustNew(t, nil, "/", map[string]string{"rest_route": value})
		for _, sent := range slices.Concat(values.exact, values.covered, values.other) {
			r := received(t, "GET", "/?x=1&rest_route="+sent)
			if exact, want := e.Is(r), slices.Contains(values.exact, sent); exact != want {
				t.Errorf("%s is %q: %v, want %v", value, sent, exact, want)
			}
			if covers, want := e.Covers(r), !slices.Contains(values.other, sent); covers != want || e.Names(r) != want {
				t.Errorf("%s covers %q: %v, want %v, names %v", value, sent, covers, want, e.Names(r))
			}
		}
	}
}

func TestMethods(t *testing.T) {
	for _, c := range []struct {
		methods   string
		method    string
		field     string
		query     string
		covers    bool
		isExactly bool
	}{
		{"POST", "POST", "", "", true, true},
		{"POST", "post", "", "", true, false},
		{"POST", "GET", "", "", false, false},
		{"GET", "HEAD", "", "", true, true},
		{"POST PUT", "PUT", "", "", true, true},
		{"PUT", "POST", "X-Http-Method-Override", "", true, false},
		{"PUT", "POST", "X-Http-Method", "", true, false},
		{"PUT", "POST", "X-Method-Override", "", true, false},
		{"PUT", "POST", "X_http_method_override", "", true, false},
		{"PUT", "POST", "X-Other", "", false, false},
		{"PUT", "POST", "", "_method=put", true, false},
		{"PUT", "POST", "", "_HttpMethod=PUT", true, false},
		{"PUT", "POST", "", "_method=delete", false, false},
		{"PUT", "PUT", "X-Http-Method-Override", "", true, false},
		{"", "ANY", "", "", true, true},
	} {
		e := mustNew(t, strings.Fields(c.methods), "/x", nil)
		r := &Request{Method: c.method, Path: "/x", Query: c.query, Header: map[string][]string{"Accept": {"PUT"}}}
		if c.field != "" {
			r.Header[c.field] = []string{" put "}
		}
		if got := e.Covers(r); got != c.covers {
			t.Errorf("%+v: covers is %v", c, got)
		}
		if got := e.Is(r); got != c.isExactly {
			t.Errorf("%+v: is %v", c, got)
		}
	}
}

func TestBadEndpoints(t *testing.T) {
	for _, c := range []struct {
		methods []string
		path    string
		query   map[string]string
		want    string
	}{
		{path: "login", want: "begin with a slash"},
		{path: "*.php", want: "/*.php"},
		{path: "/a//b", want: `expected "/a/b"`},
		{path: "/a/../b", want: `expected "/b"`},
		{path: "/a/.", want: `expected "/a"`},
		{path: "/a./b", want: `expected "/a/b"`},
		{path: "/a;b", want: `has ";" in it`},
		{path: "/a%3bb", want: `has ";" in it`},
		{path: "/a?b=c", want: "as in /search mode=heavy"},
		{path: "/{x}", want: "placeholders"},
		{path: "/[ab]", want: "Caddy's patterns"},
		{path: "/a b", want: "blank"},
		{path: "/50%", want: `has "%" in it`},
		{methods: []string{"post"}, path: "/", want: "in capitals"},
		{path: "/", query: map[string]string{"mode": ""}, want: "mode=* for any value"},
		{path: "/", query: map[string]string{"": "x"}, want: "has no name"},
		{path: "/", query: map[string]string{"a": "b&c"}, want: "set parameters apart"},
		{path: "/", query: map[string]string{"a": "[b]*"}, want: "such as a=/v2/search*"},
	} {
		_, err := New(c.methods, []string{c.path}, c.query)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %q %v: got %v, want %q", c.methods, c.path, c.query, err, c.want)
		}
	}
	if _, err := New(nil, nil, nil); err == nil {
		t.Error("an endpoint without a path is accepted")
	}
}

// All runes that differ only in case are folded alike, and so are those that Caddy's path matcher
// treats as equal.
func TestFoldRune(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		f := foldRune(r)
		if foldRune(f) != f || foldRune(unicode.SimpleFold(r)) != f || foldRune(unicode.ToLower(r)) != f || foldRune(unicode.ToUpper(r)) != f {
			t.Errorf("%U is folded to %U, which is not what its other cases are", r, f)
		}
	}
}

// Reading a hostile request takes time that is linear in its length: otherwise these would exceed
// the time of a test.
func TestHostileLengths(t *testing.T) {
	const size = 64 << 10
	endpoints := []*Endpoint{
		mustNew(t, []string{"PUT"}, "/login", map[string]string{"mode": "heavy"}), mustNew(t, nil, "/api/*", nil),
		mustNew(t, nil, "/*.php", nil), mustNew(t, nil, "/*a", nil), mustNew(t, nil, "/*a*a/*b", nil), mustNew(t, nil, "/a.php", nil),
	}
	endpoints = append(endpoints, mustNew(t, nil, "/"+strings.Repeat("*a", 1000), nil))
	for _, unit := range []string{"/", "a", "/a", ".a", "/a.php", "a.", "/login.php", "%25", "%2525", ";", "/..", "%2e", "\\", "\xff", "%c0%af", "mode&", "%zz=&", "mode=[", "/a;b", "aa/b", "php/a."} {
		text := strings.Repeat(unit, size/len(unit))
		for _, r := range []*Request{
			{Method: "POST", Path: "/" + text}, {Method: "POST", Path: "/x", Query: text}, {Method: "POST", Path: "/login", Query: text + "="},
			{Method: "POST", Path: "/" + text[:maxPath-1], RawPath: "/%41" + text[:maxPath-4]},
		} {
			for _, e := range endpoints {
				e.Covers(r)
				e.Names(r)
				e.Is(r)
			}
		}
	}
}

func TestReadingsAreFew(t *testing.T) {
	read := received(t, "GET", "//a;b%2fc/%00x?/..;/../(S(x))/d%3fe/f.php;g").reading()
	if len(read.paths) > 16 || slices.ContainsFunc(read.paths, func(s spelling) bool { return s.text == "" }) {
		t.Errorf("%d: %v", len(read.paths), read.paths)
	}
}
