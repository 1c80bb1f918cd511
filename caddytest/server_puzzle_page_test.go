package caddytest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/internal/testing/browser"
)

// A script whose session has ended gets a status and problem details, not a page, whatever types it accepts; a browser
// that loads a page gets the page.
func TestScriptsGetProblemDetails(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("", "limit 1/1h"))
	one := []string{from(1), agent(1)}
	s.wantPassed(1, 2, "/", one...)
	const problem, text, html = "application/problem+json", "text/plain; charset=utf-8", "text/html; charset=utf-8"
	for name, c := range map[string]struct{ method, fields, want string }{
		"fetch":                     {"GET", "Accept: */*|Sec-Fetch-Mode: cors|Sec-Fetch-Dest: empty", problem},
		"fetch of a page":           {"GET", "Accept: text/html, */*;q=0.5|Sec-Fetch-Mode: cors|Sec-Fetch-Dest: empty", problem},
		"fetch of the same origin":  {"GET", "Accept: text/html|Sec-Fetch-Mode: same-origin|Sec-Fetch-Dest: empty", problem},
		"fetch that posts":          {"POST", "Accept: */*|Sec-Fetch-Mode: cors|Sec-Fetch-Dest: empty", problem},
		"a beacon":                  {"POST", "Accept: */*|Sec-Fetch-Mode: no-cors|Sec-Fetch-Dest: empty", problem},
		"fetch of text":             {"GET", "Accept: text/plain|Sec-Fetch-Mode: cors|Sec-Fetch-Dest: empty", text},
		"XHR over plain HTTP":       {"GET", "Accept: text/html, */*; q=0.01|X-Requested-With: XMLHttpRequest", problem},
		"an app that shows pages":   {"GET", "Accept: text/html,*/*;q=0.8|X-Requested-With: com.example.app", html},
		"a page by a worker":        {"GET", navigation[0] + "|" + navigation[1] + "|Sec-Fetch-Dest: empty", html},
		"a page":                    {"GET", strings.Join(navigation, "|"), html},
		"a page, by an old browser": {"GET", navigation[0], html},
		"a picture":                 {"GET", "Accept: image/*|Sec-Fetch-Mode: no-cors|Sec-Fetch-Dest: image", text},
		"curl":                      {"GET", "Accept: */*", text},
	} {
		a := s.send(c.method, "/", append(slices.Clone(one), strings.Split(c.fields, "|")...)...)
		if got := a.header.Get("Content-Type"); a.status != http.StatusTooManyRequests || got != c.want || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: status %d with %s, want 429 with %s", name, a.status, got, c.want)
		}
	}
}

// A page in a frame gets a link to the puzzle. Who may frame it is the site's decision: the strictest of what it says
// at once and later holds, and none of it gets lost.
func TestFramesGetALinkToThePuzzle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ header, policy, options string }{
		"nothing":             {"", "", ""},
		"for some":            {"header Content-Security-Policy \"default-src 'self'; Frame-Ancestors  https://partner.test\"", "Frame-Ancestors https://partner.test", ""},
		"for some, later":     {"header >Content-Security-Policy \"frame-ancestors https://partner.test; default-src 'self'\"", "frame-ancestors https://partner.test", ""},
		"of two the later":    {"header Content-Security-Policy \"frame-ancestors a.test\"\nheader >Content-Security-Policy \"frame-ancestors b.test\"", "frame-ancestors b.test", ""},
		"two policies":        {"header {\ndefer\nContent-Security-Policy \"frame-ancestors a.test, frame-ancestors b.test\"\n}", "frame-ancestors a.test frame-ancestors b.test", ""},
		"the older field":     {"header X-Frame-Options SAMEORIGIN", "", "SAMEORIGIN"},
		"the older one later": {"header {\n-Server\nX-Frame-Options DENY\n}", "", "DENY"},
	} {
		s := startCaddy(t, options("rate_limit {\nstore_timeout 1m\nsession\n}\n")+site(c.header+"\nrate_limit {\nzone z {\nper client\nlimit 1/1h\non_exceeded challenge\n}\n}\nrespond hello"))
		for _, dest := range []string{"iframe", "frame", "object", "embed"} {
			framed := []string{navigation[0], navigation[1], "Sec-Fetch-Dest: " + dest}
			s.get("/part?a=1&b=2", framed...)
			a := s.get("/part?a=1&b=2", framed...)
			link := `<a href="/.well-known/rate-limit/?target=%2Fpart%3Fa%3D1%26b%3D2" target="_top">Continue</a>`
			if a.status != http.StatusTooManyRequests || !strings.Contains(a.body, link) || strings.Contains(a.body, "<script") || strings.Contains(a.body, "<form") {
				t.Errorf("%s, %s: status %d, %s", name, dest, a.status, a.body)
			}
			policies := append(a.header["Content-Security-Policy"], "")
			if got := strings.TrimSpace(strings.Join(policies[1:], " ")); got != c.policy || strings.Contains(policies[0], "frame-ancestors") || a.header.Get("X-Frame-Options") != c.options {
				t.Errorf("%s, %s: the policies are %q, and %q", name, dest, policies, a.header["X-Frame-Options"])
			}
		}
		if a := s.get("/part", navigation...); !strings.Contains(a.header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: the puzzle's policy is %q", name, a.header["Content-Security-Policy"])
		}
	}
}

// crowded starts a Caddy whose clients' network has used up its limit on /page and /part, and a backend that tells what
// reaches it, and as what kind of client.
func crowded(t *testing.T, sessions string) (s *server, arrived chan string) {
	t.Helper()
	arrived = make(chan string, 1000)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- r.URL.RequestURI() + " " + r.Header.Get("X-Kind")
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/worker.js" {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, "self.onactivate = e => e.waitUntil(clients.claim()); self.onfetch = e => e.respondWith(fetch(e.request))")
			return
		}
		fmt.Fprint(w, "<!doctype html><iframe src=/part></iframe>")
	}))
	t.Cleanup(backend.Close)
	s = startCaddy(t, options("rate_limit {\nstore_timeout 1m\nsession {\n"+sessions+"\n}\n}\n")+site(`
		rate_limit {
			zone puzzle {
				match path /page* /part*
				per client
				limit 100/1h
				prefix_ceiling 1
				on_exceeded challenge
			}
		}
		reverse_proxy {$BACKEND} {
			header_up X-Kind {http.rate_limit.client.kind}
		}`), "BACKEND="+strings.TrimPrefix(backend.URL, "http://"))
	for range 101 {
		s.get("/page")
	}
	for len(arrived) > 0 {
		<-arrived
	}
	return s, arrived
}

// await waits until a request reaches the backend.
func await(t *testing.T, arrived chan string, want string) {
	t.Helper()
	timeout := time.After(patience)
	for got := ""; got != want; {
		select {
		case got = <-arrived: // or something else that a browser asks for, such as an icon
		case <-timeout:
			t.Fatalf("no browser comes to %q", want)
		}
	}
}

// Browsers and devices that lack something pass the puzzle all the same.
func TestOddBrowsersPassThePuzzle(t *testing.T) {
	t.Parallel()
	b := browser.Start(t, browser.Find(t)) // in a private window, as each test's
	s, arrived := crowded(t, "challenge proof_of_work 10\nmax_sessions_per_prefix 100")
	early := func(script string) func(*browser.Page) {
		return func(p *browser.Page) {
			p.Do("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": script})
		}
	}
	for name, prepare := range map[string]func(*browser.Page){
		"saves data": func(p *browser.Page) {
			p.Do("Network.setExtraHTTPHeaders", map[string]any{"headers": map[string]string{"Save-Data": "on"}})
		},
		"slow":          func(p *browser.Page) { p.Do("Emulation.setCPUThrottlingRate", map[string]any{"rate": deep(4, 20)}) },
		"in the past":   early("Date.now = () => 0"),
		"in the future": early("Date.now = () => 4e12"),
		"no storage":    early("Object.defineProperty(window, 'sessionStorage', { get() { throw new DOMException('', 'SecurityError') } })"),
		"no workers":    early("window.Worker = class { constructor() { throw new Error() } }"),
	} {
		page := b.Open(t, browser.View{Width: 360, Height: 740})
		page.Do("Network.clearBrowserCookies", map[string]any{})
		prepare(page)
		target := "/page?" + url.QueryEscape(name)
		if err := page.Start("http://127.0.0.1:" + s.port + target); err != nil {
			t.Fatal(err)
		}
		await(t, arrived, target+" session")
		page.Close()
	}
}

// stripped is a proxy in front of a server that removes all cookies that it sets.
func stripped(t *testing.T, s *server) string {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:" + s.port})
	proxy.ModifyResponse = func(a *http.Response) error {
		a.Header.Del("Set-Cookie")
		return nil
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	return front.URL
}

// Whose cookies get lost on the way is told so in the language of the browser, and isn't sent round in circles.
func TestBrowserIsToldThatCookiesGetLost(t *testing.T) {
	t.Parallel()
	b := browser.Start(t, browser.Find(t))
	s, _ := crowded(t, "challenge proof_of_work 8 {\nwithout_script 5s\n}")
	page := b.Open(t, browser.View{Width: 360, Height: 740})
	page.Do("Network.setExtraHTTPHeaders", map[string]any{"headers": map[string]string{"Accept-Language": "de"}})
	if err := page.Start(stripped(t, s) + "/page"); err != nil {
		t.Fatal(err)
	}
	last := ""
	waitFor(t, "the browser to be told", func() bool {
		for _, at := range page.Requests() {
			if strings.Contains(at, "earned=") {
				last = at
			}
		}
		return last != ""
	})
	page.Go(last) // again, for it may not be loaded yet
	waitFor(t, "the words of the page", func() bool {
		var text string
		page.Eval("document.body?.innerText ?? ''", &text) // the page before may have ended its loading meanwhile
		return strings.Contains(text, "kam nicht zurück") && strings.Contains(text, "Weiter")
	})
}

// A browser that has solved twice in a row, or that has no scripts, shows that it has the cookie before it goes on.
func TestLostCookieIsNoticed(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, perClient("session {\nchallenge proof_of_work 8 {\nwithout_script 5s\n}\n}", "on_exceeded challenge\nlimit 1/1h"))
	one := []string{from(1), agent(1)}
	setter := challenge.New(s.secret(), 0)
	wait := setter.SetWait(time.Now().Add(-30*time.Second), audience.Site, networkOf(1), 10*time.Second)
	again := solve(t, s.get(endpoint, one...).body, "/where?x=1")
	again.Set("again", "1")
	for name, a := range map[string]answer{
		"again":          s.post(again, one...),
		"without script": s.get(endpoint+"?"+url.Values{"wait": {wait.Token}, "target": {"/where?x=1"}}.Encode(), with(one, append(navigation, "Sec-Fetch-Site: same-origin")...)...),
	} {
		to := a.header.Get("Location")
		if a.status != http.StatusSeeOther || !strings.HasPrefix(to, endpoint+"?earned=&target=") {
			t.Fatalf("%s: answered with %d, to %q", name, a.status, to)
		}
		if a := s.get(to, with(one, "Accept-Language: fr", cookieOf(t, a))...); a.status != http.StatusSeeOther || a.header.Get("Location") != "/where?x=1" {
			t.Errorf("%s: with its cookie a browser gets %d, to %q", name, a.status, a.header.Get("Location"))
		}
		if a := s.get(to, with(one, "Accept-Language: fr")...); a.status != http.StatusForbidden || !strings.Contains(a.body, "n’est pas revenu") || !strings.Contains(a.body, `href="/where?x=1"`) || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: without it %d: %s", name, a.status, a.body)
		}
	}
	if a := s.get(endpoint+"?earned=&target=https://evil.test/", one...); !strings.Contains(a.body, `href="/"`) {
		t.Errorf("it leads elsewhere: %s", a.body)
	}
}

// The link in a frame leads to the puzzle in the whole window, and from there to the page with a session.
func TestBrowserLeavesTheFrameForThePuzzle(t *testing.T) {
	t.Parallel()
	b := browser.Start(t, browser.Find(t))
	s, arrived := crowded(t, "challenge proof_of_work 8")
	page := b.Open(t, browser.View{Width: 1000, Height: 700})
	page.Go("http://127.0.0.1:" + s.port + "/open")
	await(t, arrived, "/open fingerprint")
	page.Eval(`document.querySelector("iframe").contentDocument.querySelector("a").click()`, nil)
	await(t, arrived, "/part session")
}

// A site's service worker, through which all requests go, is no script of a page.
func TestBrowserPassesThePuzzleThroughAServiceWorker(t *testing.T) {
	t.Parallel()
	b := browser.Start(t, browser.Find(t))
	s, arrived := crowded(t, "challenge proof_of_work 8")
	page := b.Open(t, browser.View{Width: 1000, Height: 700})
	page.Go("http://127.0.0.1:" + s.port + "/open")
	page.Eval(`navigator.serviceWorker.register("/worker.js").then(() => navigator.serviceWorker.controller || new Promise((done) => navigator.serviceWorker.oncontrollerchange = done))`, nil)
	if err := page.Start("http://127.0.0.1:" + s.port + "/page?worker#part"); err != nil {
		t.Fatal(err)
	}
	await(t, arrived, "/page?worker session")
}

// Whatever changes in the settings of sessions while browsers have one: a browser that returns passes at once or after one
// more puzzle, and no old cookie is in the way of the new one.
func TestChangedSettingsOfSessionsEndNoVisit(t *testing.T) {
	t.Parallel()
	settings := func(sessions string) string {
		return options("rate_limit {\nstore_timeout 1m\nsession {\nmax_sessions_per_prefix 1000\n"+sessions+"\n}\n}\n"+trusting) + site("rate_limit {\nzone z {\nmatch /page\nper client\nlimit 1000/1h\nprefix_ceiling 1\non_exceeded challenge\n}\n}\nrespond hello")
	}
	easy := "challenge proof_of_work 4"
	s := startCaddy(t, settings(easy))
	for range 1001 {
		s.get("/page")
	}
	jar := make(map[string]string) // as of a browser: one cookie of a name, host and path
	for n, c := range []struct{ sessions, path, scheme string }{
		{easy, endpoint, "http"}, {easy, endpoint, "https"}, {easy + "\nlifetime 2m", endpoint, "https"}, {easy + "\nlifetime 300d", endpoint, "https"},
		{"challenge proof_of_work 6", endpoint, "https"}, {easy + "\npath /another/", "/another/", "https"}, {easy, endpoint, "http"},
		{easy + "\nlifetime 1m", endpoint, "http"}, {"challenge proof_of_work 5 {\nwithout_script 5s\n}", endpoint, "https"},
	} {
		s.mustReload(settings(c.sessions))
		fields := with(navigation, "X-Forwarded-Proto: "+c.scheme)
		get := func() answer {
			cookies := make([]string, 0, len(jar))
			for name, value := range jar {
				cookies = append(cookies, name+"="+value)
			}
			return s.get("/page", with(fields, "Cookie: "+strings.Join(cookies, "; "))...)
		}
		a := get()
		if a.status == http.StatusTooManyRequests {
			r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:"+s.port+c.path, strings.NewReader(solve(t, a.body, "/page").Encode()))
			if err != nil {
				t.Fatal(err)
			}
			solved, err := do(s.client, r, with(fields, "Content-Type: application/x-www-form-urlencoded")...)
			if err != nil || solved.status != http.StatusSeeOther {
				t.Fatalf("%d: a solution is answered with %d: %v", n, solved.status, err)
			}
			cookie, err := http.ParseSetCookie(solved.header.Get("Set-Cookie"))
			if err != nil {
				t.Fatal(err)
			}
			jar[cookie.Name] = cookie.Value
			a = get()
		}
		if a.status != http.StatusOK {
			t.Errorf("%d, %+v: after a puzzle the browser gets %d", n, c, a.status)
		}
	}
	if len(jar) != 2 {
		t.Errorf("the browser has %d cookies, want one for each scheme", len(jar))
	}
}
