package caddytest

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/browser"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// refusing is a site that refuses everything but the first request.
func refusing(global, handler, rest string) string {
	return options("rate_limit {\nstore_timeout 1m\n"+global+"\n}\n") + refusingSite(handler, rest)
}

func refusingSite(handler, rest string) string {
	return site(`
		rate_limit {
			zone z {
				limit 1/1h
			}
			` + handler + `
		}
		respond hello
		` + rest)
}

// isPage reports whether an answer is the page of a refused request.
func (a answer) isPage() bool {
	return (a.status == http.StatusTooManyRequests || a.status == http.StatusForbidden) && strings.Contains(a.body, "Please come back a little later")
}

func TestBrowsersGetAPage(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, refusing("page {\nname \"Example & Sons\"\ncontact help@example.com\n}", "", ""))
	s.wantPassed(1, 1, "/")
	a := s.get("/where?x=<script>", append(slices.Clone(navigation), "Accept-Language: xx")...)
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Content-Language": "en", "Cache-Control": "no-store", "Vary": "Accept, Accept-Language",
		"Content-Length": strconv.Itoa(len(a.body)), "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, want := range []string{
		`<p class="site">Example &amp; Sons</p>`, `<a href="mailto:help@example.com">`, `data-wait="` + a.header.Get("Retry-After") + `"`,
		"You can try again <b>in ", "<code>",
	} {
		if !strings.Contains(a.body, want) {
			t.Errorf("the page lacks %q:\n%s", want, a.body)
		}
	}
	if !a.isPage() || a.header.Get("RateLimit") == "" || !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") || len(a.body) >= 6000 {
		t.Errorf("status %d, %d bytes, %v", a.status, len(a.body), a.header)
	}
	german := s.get("/", append(slices.Clone(navigation), "Accept-Language: sv, de-AT;q=0.9, en;q=0.8")...)
	if german.header.Get("Content-Language") != "de" || !strings.Contains(german.body, `<html lang="de">`) || !strings.Contains(german.body, "Sie können es <b>in ") {
		t.Errorf("in German: %v\n%s", german.header, german.body)
	}
	// Of HEAD a client learns what it would get with GET, of the same length.
	head := s.send(http.MethodHead, "/where?x=<script>", append(slices.Clone(navigation), "Accept-Language: xx")...)
	if head.body != "" || head.header.Get("Content-Length") != a.header.Get("Content-Length") || head.header.Get("Content-Type") != a.header.Get("Content-Type") {
		t.Errorf("HEAD: %v %q", head.header, head.body)
	}
}

// What isn't a browser that loads a page gets, byte for byte, what it gets without the page.
func TestOthersGetNoPage(t *testing.T) {
	t.Parallel()
	with, without := startCaddy(t, refusing("", "", "")), startCaddy(t, refusing("", "page off", ""))
	with.wantPassed(1, 1, "/")
	without.wantPassed(1, 1, "/")
	html := navigation[0]
	for name, c := range map[string]struct {
		method string
		fields []string
		page   bool
	}{
		"browser":      {"GET", navigation, true},
		"form":         {"POST", navigation, true},
		"old browser":  {"GET", navigation[:1], true},
		"nothing":      {"GET", nil, false},
		"curl":         {"GET", []string{"Accept: */*"}, false},
		"API":          {"GET", []string{"Accept: application/json, text/html;q=0.5"}, false},
		"problem":      {"GET", []string{"Accept: application/problem+json, text/html"}, false},
		"fetch":        {"GET", []string{html, "Sec-Fetch-Mode: cors"}, false},
		"frame":        {"GET", []string{html, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, false},
		"image":        {"GET", []string{"Accept: image/*", "Sec-Fetch-Mode: no-cors"}, false},
		"other method": {"PUT", navigation, false},
	} {
		a, b := with.send(c.method, "/", c.fields...), without.send(c.method, "/", c.fields...)
		if a.isPage() != c.page {
			t.Errorf("%s: page: %v, want %v: %v", name, a.isPage(), c.page, a.header)
		}
		if b.isPage() || !c.page && (a.status != b.status || !slices.Equal(fieldNames(a), fieldNames(b)) || !strings.HasPrefix(name, "problem") && a.body != b.body) {
			t.Errorf("%s: with the page %v %q, without it %v %q", name, a.header, a.body, b.header, b.body)
		}
	}
}

func fieldNames(a answer) []string { return slices.Sorted(maps.Keys(a.header)) }

// A browser gets the page only where no route answers the error: those of other sites, and those
// for other statuses, don't.
func TestErrorRoutesComeBeforeThePage(t *testing.T) {
	t.Parallel()
	const own = "handle_errors {\nrespond \"our own\" 429\n}"
	cases := map[string]struct {
		rest, more string
		page       bool
	}{
		"none":               {"", "", true},
		"all":                {own, "", false},
		"429":                {"handle_errors 429 {\nrespond \"our own\" 429\n}", "", false},
		"4xx":                {"handle_errors 4xx {\nrespond \"our own\" 429\n}", "", false},
		"404":                {"handle_errors 404 5xx {\nrespond \"not found\" 404\n}", "", true},
		"another site":       {"", "http://other.test:{$PORT} {\n" + own + "\n}\n", true},
		"a path":             {"handle_errors {\n@api path /api/*\nhandle @api {\nrespond \"our own\" 429\n}\n}", "", true},
		"this path":          {"handle_errors {\n@here path /here/*\nhandle @here {\nrespond \"our own\" 429\n}\n}", "", false},
		"path as it was":     {"uri replace /here/ /there/\nhandle_errors {\n@here path /here/*\nhandle @here {\nrespond \"our own\" 429\n}\n}", "", false},
		"variable as it was": {"uri replace /here/ /there/\nhandle_errors {\n@here vars {path} /here/x\nhandle @here {\nrespond \"our own\" 429\n}\n}", "", false},
		"path as it is not":  {"uri replace /here/ /there/\nhandle_errors {\n@there path /there/*\nhandle @there {\nrespond \"our own\" 429\n}\n}", "", true},
		"a bad matcher":      {"handle_errors {\n@bad expression `int({query}) == 1`\nhandle @bad {\nrespond \"our own\" 429\n}\n}", "", false},
	}
	var sites, names []string
	for name, c := range cases {
		names, sites = append(names, name), append(sites, refusingSite("", c.rest)+c.more)
	}
	s, at := startSites(t, patient, sites)
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			at(i)
			c := cases[name]
			s.wantPassed(1, 1, "/here/x")
			a := s.get("/here/x", navigation...)
			if a.isPage() != c.page || a.status != http.StatusTooManyRequests {
				t.Errorf("page: %v, want %v: %d %.300q", a.isPage(), c.page, a.status, a.body)
			}
			if !c.page && name != "a bad matcher" && a.body != "our own" {
				t.Errorf("the route's answer is %q", a.body)
			}
		})
	}
}

// Inside handle_errors nobody else answers a refusal.
func TestPageInsideHandleErrors(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(patient)+site(`
		error 404
		handle_errors 404 {
			rate_limit {
				zone missing {
					limit 1/1h
				}
			}
			respond "nothing here" 404
		}`))
	s.get("/")
	if a := s.get("/", navigation...); !a.isPage() {
		t.Errorf("beyond the limit: %d %q", a.status, a.body)
	}
}

// What a handler says of its page holds instead of what the global option says.
func TestPageOfAHandler(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		global, handler string
		page            bool
		text            string
	}{
		"off for all":     {"page off", "", false, ""},
		"off here":        {"page {\nname Global\n}", "page off", false, ""},
		"on here":         {"page off", "page {\nname Here\n}", true, ">Here<"},
		"another one":     {"page {\nname Global\n}", "page {\nname Here\n}", true, ">Here<"},
		"the one for all": {"page {\nname Global\n}", "", true, ">Global<"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startCaddy(t, refusing(c.global, c.handler, ""))
			s.wantPassed(1, 1, "/")
			if a := s.get("/", navigation...); a.isPage() != c.page || !strings.Contains(a.body, c.text) {
				t.Errorf("page: %v, want %v with %q: %.700q", a.isPage(), c.page, c.text, a.body)
			}
		})
	}
}

// Where waiting doesn't help, the page says so, and counts nothing.
func TestPageOfARequestThatCanNeverPass(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, refusing("", "", ""))
	s.mustReload(strings.Replace(refusing("", "", ""), "limit 1/1h", "limit 1/1h\ncost 2", 1))
	a := s.get("/", navigation...)
	if a.status != http.StatusForbidden || !a.isPage() || !strings.Contains(a.body, "Waiting won’t change this.") || strings.Contains(a.body, "<script>") || a.header.Get("Retry-After") != "" {
		t.Errorf("status %d, %v, %q", a.status, a.header, a.body)
	}
}

// With the reference on the page an operator finds out why.
func TestReferenceOnThePage(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, refusing("", "", ""))
	s.wantPassed(1, 1, "/")
	codes := regexp.MustCompile("<code>([^<]*)</code>").FindAllStringSubmatch(s.get("/where/12345", navigation...).body, -1)
	if len(codes) != 2 || len(codes[0][1]) != 11 || len(codes[1][1]) != 64 {
		t.Fatalf("the page has the references %q", codes)
	}
	s.mustReload(refusing("page {\nname Another\n}", "", "")) // memory outlives it
	for _, code := range codes {
		if out, err := s.run("rate-limit", "explain", code[1], "--config", "Caddyfile"); err != nil || !strings.Contains(out, "limit z") || !strings.Contains(out, "GET /where/*: it cost 1, 0 were left") {
			t.Errorf("%q is explained as %q, %v", code[1], out, err)
		}
	}
	s.stop()
	s.start()
	if out, err := s.run("rate-limit", "explain", codes[0][1], "--config", "Caddyfile"); err == nil || !strings.Contains(out, "decision log") {
		t.Errorf("after a restart %q is explained as %q", codes[0][1], out)
	}
	if out, err := s.run("rate-limit", "explain", codes[1][1], "--config", "Caddyfile"); err != nil || !strings.Contains(out, "limit z") {
		t.Errorf("after a restart %q is explained as %q, %v", codes[1][1], out, err)
	}
}

// A browser shows the page of a real Caddy, without a complaint, and the link leads to the site
// when the time is over.
func TestBrowserComesBack(t *testing.T) {
	t.Parallel()
	proof.Only(t)
	b := browser.Start(t, browser.Find(t))
	s := startCaddy(t, strings.Replace(refusing("page {\nname Example\n}", "", ""), "limit 1/1h", "limit 1/2s slots 1", 1))
	page := b.Open(t, browser.View{Width: 360, Height: 740})
	address := fmt.Sprintf("http://site.test:%s/", s.port)
	page.Go(address)
	page.Go(address)
	page.Wait(`document.querySelector(".again").checkVisibility()`)
	page.Load(func() { page.Eval(`document.querySelector(".again").click()`, nil) })
	var text string
	page.Eval(`document.body.innerText`, &text)
	if text != "hello" {
		t.Errorf("the link leads to %q", text)
	}
	for _, trouble := range page.Troubles() {
		if !strings.Contains(trouble, "429 (Too Many Requests)") {
			t.Error(trouble)
		}
	}
	for _, request := range page.Requests() {
		if !strings.HasPrefix(request, address) && request != "data:," {
			t.Errorf("the page asks for %s", request)
		}
	}
}

// A browser that asks for challenges too often sees the same page; others a line of text.
func TestPageOfTooManyChallenges(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("", "limit 1/1h"))
	untilRefused := func(fields ...string) (a answer) {
		for range 1000 { // 60 a minute, and a slow machine sends more in that time
			if a = s.get(endpoint, append(fields, from(1))...); a.status == http.StatusTooManyRequests {
				break
			}
		}
		return a
	}
	if a := untilRefused(navigation...); a.status != http.StatusTooManyRequests || !a.isPage() || a.header.Get("Retry-After") == "" {
		t.Errorf("a browser gets %d, %v, %.300q", a.status, a.header, a.body)
	}
	if a := untilRefused(); !strings.HasPrefix(a.body, "Too many requests from your network. Try again in ") {
		t.Errorf("others get %d, %.300q", a.status, a.body)
	}
}
