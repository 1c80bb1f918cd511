package caddytest

import (
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/internal/operator"
)

func TestChallengeEarnsASession(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("", "limit 3/1h"))
	one := []string{from(1), agent(1)}
	s.wantPassed(3, 3, "/", one...)

	a := s.get("/where?x=1&y=%2F", append(one, navigation...)...)
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", "RateLimit-Policy": `"z";q=3;w=3600`,
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" || !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("the page comes with status %d and %v", a.status, a.header)
	}
	if !strings.Contains(a.body, `value="/where?x=1&amp;y=%2F"`) || !strings.Contains(a.body, `action="`+endpoint+`"`) {
		t.Errorf("the page doesn't lead back: %s", a.body)
	}

	a = s.post(solve(t, a.body, "/where?x=1&y=%2F"), one...)
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/where?x=1&y=%2F" {
		t.Fatalf("a solution is answered with %d and %v", a.status, a.header)
	}
	set := a.header.Get("Set-Cookie")
	for _, attribute := range []string{"rl=", "; Path=/", "; Max-Age=6047", "; HttpOnly", "; SameSite=Lax"} {
		if !strings.Contains(set, attribute) || strings.Contains(set, "Domain") {
			t.Errorf("the cookie is set by %q, which lacks %q", set, attribute)
		}
	}
	cookie := cookieOf(t, a)
	if kind := s.kind(append(one, cookie)...); kind != "session" {
		t.Errorf("who has a session is known by a %s", kind)
	}
	s.wantPassed(2, 5, "/", append(one, cookie)...)
	s.wantPassed(0, 2, "/", one...)
	if a := s.get("/", append(one, append(navigation, cookie)...)...); !a.isPage() {
		t.Errorf("a verified client that is over its limit is answered with %d %.100q", a.status, a.body)
	}
	// The session is all that counts, whatever browser it is in.
	s.wantPassed(0, 2, "/", from(1), agent(2), cookie)
}

// Behind a proxy that ends TLS, and that Caddy trusts, a session is as safe as with TLS here.
func TestSessionBehindAProxyWithTLS(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("", "limit 3/1h"))
	one := []string{from(1), agent(1), "X-Forwarded-Proto: https"}
	s.wantPassed(3, 3, "/", one...)
	a := s.post(solve(t, s.get("/", append(one, navigation...)...).body, "/"), one...)
	if set := a.header.Get("Set-Cookie"); !strings.HasPrefix(set, "__Host-rl=") || !strings.HasSuffix(set, "; Secure") {
		t.Fatalf("status %d sets the cookie %q", a.status, set)
	}
	if kind := s.kind(append(one, cookieOf(t, a))...); kind != "session" {
		t.Errorf("who has a session is known by a %s", kind)
	}
	if a := s.get("/", from(1), agent(1), cookieOf(t, a)); a.status != http.StatusTooManyRequests {
		t.Errorf("over plain HTTP the cookie counts: status %d", a.status)
	}
}

// Only a page that a person called up is answered with another page.
func TestWhoIsOfferedAChallenge(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("", "limit 1/1h"))
	one := []string{from(1), agent(1)}
	s.wantPassed(1, 2, "/", one...)
	for name, c := range map[string]struct {
		method string
		fields []string
		offer  bool
	}{
		"browser":       {"GET", navigation, true},
		"old browser":   {"GET", navigation[:1], true},
		"curl":          {"GET", []string{"Accept: */*"}, false},
		"nothing":       {"GET", nil, false},
		"fetch":         {"GET", []string{navigation[0], "Sec-Fetch-Mode: cors"}, false},
		"frame":         {"GET", []string{navigation[0], navigation[1], "Sec-Fetch-Dest: iframe"}, false},
		"image":         {"GET", []string{"Accept: image/*", "Sec-Fetch-Mode: no-cors"}, false},
		"POST":          {"POST", navigation, false},
		"HEAD":          {"HEAD", navigation, false},
		"problem first": {"GET", []string{"Accept: application/problem+json"}, false},
	} {
		a := s.send(c.method, "/", append(slices.Clone(one), c.fields...)...)
		if offered := strings.Contains(a.body, "data-puzzle"); a.status != http.StatusTooManyRequests || offered != c.offer {
			t.Errorf("%s: status %d, offered: %v, want 429 and %v", name, a.status, offered, c.offer)
		}
	}
	s.mustReload(withSessions("", "limit 1/1h\ncost 2"))
	if a := s.get("/", append(one, navigation...)...); !a.isPage() {
		t.Errorf("what no session would help is answered with %d %.100q", a.status, a.body)
	}
}

// Two people and a script behind one address: the script has what its network has,
// and the people notice nothing.
func TestScriptAndPeopleBehindOneAddress(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("", "limit 10/1h"))
	ann, ben := s.earn(from(1), agent(1)), s.earn(from(1), agent(2))
	s.wantPassed(5, 5, "/", from(1), agent(1), ann)

	var passed atomic.Int64
	var script sync.WaitGroup
	for worker := range 8 {
		script.Go(func() {
			for i := worker; i < 10_000; i += 8 {
				a, err := s.try(http.MethodGet, "/", from(1), fmt.Sprintf("User-Agent: script %d", i))
				if err != nil {
					t.Error(err)
					return
				}
				if a.isAllowed(t) {
					passed.Add(1)
				}
			}
		})
	}
	script.Wait()
	if n := passed.Load(); n < 20 || n > 40 {
		t.Errorf("the script got %d, want at most 40", n)
	}
	if !strings.Contains(s.mustMetrics(), "caddy_rate_limit_squeezes_total 1") {
		t.Error("its network was not squeezed")
	}
	s.wantPassed(5, 7, "/", from(1), agent(1), ann)
	s.wantPassed(10, 12, "/", from(1), agent(2), ben)
	// Somebody new sees the page, and is served.
	a := s.get("/", append(navigation, from(1), agent(3))...)
	a = s.post(solve(t, a.body, "/"), from(1), agent(3))
	s.wantPassed(10, 12, "/", from(1), agent(3), cookieOf(t, a))
}

func TestSolutionIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("max_sessions_per_prefix 1000", "limit 3/1h"))
	form := solve(t, s.get(endpoint, from(1)).body, "/")
	var accepted, used, tooOften atomic.Int64
	var all sync.WaitGroup
	for range 100 { // at once; the endpoint takes 60 in a minute
		all.Go(func() {
			switch a, err := s.tryPost(form, from(1)); {
			case err != nil:
				t.Error(err)
			case a.status == http.StatusSeeOther:
				accepted.Add(1)
			case a.status == http.StatusForbidden && strings.Contains(a.body, "This had been solved before."):
				used.Add(1)
			case a.status == http.StatusTooManyRequests && strings.Contains(a.body, "Too many requests from your network."):
				tooOften.Add(1)
			default:
				t.Errorf("status %d: %.200q", a.status, a.body)
			}
		})
	}
	all.Wait()
	if accepted.Load() != 1 || used.Load()+tooOften.Load() != 99 || used.Load() < 58 {
		t.Errorf("one solution earned %d sessions, and was refused as used %d times, and as one request too many %d times", accepted.Load(), used.Load(), tooOften.Load())
	}
	s.kill()
	s.start()
	waitFor(t, "the endpoint to take more", func() bool {
		a := s.post(form, from(1))
		if a.status == http.StatusSeeOther {
			t.Fatal("the solution was accepted again after a crash")
		}
		return a.status == http.StatusForbidden
	})
}

func TestSolutionsThatEarnNothing(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("", "limit 3/1h"))
	s.get("/") // the secret is there
	secret := s.secret()
	set := func(secret *identity.Secret, site string, network []byte, at time.Time) url.Values {
		t.Helper()
		setter := challenge.New(secret, 8)
		puzzle := setter.Set(at, site, network)
		return url.Values{"puzzle": {puzzle.Text}, "solution": {solution(puzzle.Text, puzzle.Numbers, puzzle.Zeros)}}
	}
	other, err := identity.NewSecret([]byte(strings.Repeat("another secret ", 4)))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	wrong := set(secret, "127.0.0.1", networkOf(1), now)
	wrong.Set("solution", strings.Repeat("f", 16*16))
	altered := set(secret, "127.0.0.1", networkOf(1), now)
	altered.Set("puzzle", "B"+altered.Get("puzzle")[1:])
	for name, form := range map[string]url.Values{
		"another network": set(secret, "127.0.0.1", networkOf(2), now),
		"another site":    set(secret, "example.com", networkOf(1), now),
		"old":             set(secret, "127.0.0.1", networkOf(1), now.Add(-time.Hour)),
		"forged":          set(other, "127.0.0.1", networkOf(1), now),
		"wrong":           wrong,
		"altered":         altered,
		"empty":           {},
		"nonsense":        {"puzzle": {"\x00\xff"}, "solution": {strings.Repeat("0", 1000)}},
	} {
		if a := s.post(form, from(1)); a.status != http.StatusForbidden || len(a.header.Values("Set-Cookie")) > 0 || !strings.Contains(a.body, "data-puzzle") {
			t.Errorf("%s: status %d, cookies %q; want 403 and another puzzle", name, a.status, a.header.Values("Set-Cookie"))
		}
	}
	if a := s.post(set(secret, "127.0.0.1", networkOf(1), now), from(1)); a.status != http.StatusSeeOther {
		t.Errorf("one that is good is answered with %d", a.status)
	}
	if a := s.post(url.Values{"puzzle": {strings.Repeat("x", 64<<10)}}, from(2)); a.status != http.StatusBadRequest {
		t.Errorf("a long form is answered with %d", a.status)
	}
	if a := s.send(http.MethodPost, endpoint, from(2), "Content-Type: text/plain"); a.status != http.StatusUnsupportedMediaType {
		t.Errorf("no form is answered with %d", a.status)
	}
	status, err := operator.NewRemote("tcp", s.admin).Status(t.Context())
	if want := (operator.Challenges{Shown: 8, Solved: 1, Wrong: 8}); err != nil || status.Challenges != want {
		t.Errorf("got %+v, %v, want %+v", status.Challenges, err, want)
	}
	metrics := s.mustMetrics()
	for _, line := range []string{
		`caddy_rate_limit_challenges_total 8`,
		`caddy_rate_limit_sessions_total{act="issued"} 1`,
		`caddy_rate_limit_refused_sessions_total{reason="foreign"} 3`,
		`caddy_rate_limit_refused_sessions_total{reason="expired"} 1`,
		`caddy_rate_limit_refused_sessions_total{reason="unsolved"} 1`,
		`caddy_rate_limit_refused_sessions_total{reason="malformed"} 3`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
}

func TestSessionsOfANetworkAreCapped(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("max_sessions_per_prefix 3", "limit 3/1h"))
	for range 3 {
		s.earn(from(1))
	}
	a := s.post(solve(t, s.get(endpoint, from(1)).body, "/"), from(1))
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" || len(a.header.Values("Set-Cookie")) > 0 {
		t.Errorf("one more is answered with %d and %v", a.status, a.header)
	}
	s.earn(from(2))
}

// A flood of requests for challenges makes nothing that stays, and is limited.
func TestFloodOfChallenges(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("", "limit 3/1h"))
	s.earn(from(2))
	pages, refused, begin := 0, 0, time.Now()
	for i := range 300 {
		switch a := s.get(endpoint, from(1), agent(i)); a.status {
		case http.StatusOK:
			pages++
		case http.StatusTooManyRequests:
			refused++
			if a.header.Get("Retry-After") == "" || len(a.body) > 200 {
				t.Fatalf("a flood is answered with %v and %d bytes", a.header, len(a.body))
			}
		default:
			t.Fatalf("status is %d", a.status)
		}
	}
	if most := 61 + int(time.Since(begin)/time.Second); pages < 60 || pages > most || refused == 0 { // 60, and one a second
		t.Errorf("%d pages and %d refusals, want 60 pages to %d", pages, refused, most)
	}
	s.earn(from(2)) // somebody else
	keys := 0.0
	for line := range strings.Lines(s.mustMetrics()) {
		if n, ok := strings.CutPrefix(line, "caddy_rate_limit_keys_total "); ok {
			fmt.Sscan(n, &keys)
		}
	}
	if keys < 1 || keys > 10 {
		t.Errorf("%v keys are held after a flood of one network", keys)
	}
}

// Refused requests are answered with a challenge now and then, and not all of them.
func TestChallengesAreBounded(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("", "limit 1/1h"))
	s.wantPassed(1, 1, "/", from(1), agent(1))
	pages, begin := 0, time.Now()
	for range 200 {
		if a := s.get("/", append(navigation, from(1), agent(1))...); strings.Contains(a.body, "data-puzzle") {
			pages++
		} else if !a.isPage() || a.header.Get("Retry-After") == "" {
			t.Fatalf("without a challenge a refusal is %d %.100q %v", a.status, a.body, a.header)
		}
	}
	if most := 31 + int(time.Since(begin)/(2*time.Second)); pages < 30 || pages > most { // 30, and one every two seconds
		t.Errorf("%d of 200 refusals were pages, want 30 to %d", pages, most)
	}
}

// What is no session changes nothing: the client is who it is without.
func TestCookiesThatAreNoSession(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("", "limit 1000/1h"))
	cookie := s.earn(from(1), agent(1))
	value := strings.TrimPrefix(cookie, "Cookie: rl=")
	signer := func(secret *identity.Secret) *session.Signer {
		signer := session.New(secret, 0)
		return signer
	}
	other, err := identity.NewSecret([]byte(strings.Repeat("another secret ", 4)))
	if err != nil {
		t.Fatal(err)
	}
	issue := func(secret *identity.Secret, at time.Time, a session.Audience) string {
		_, value := signer(secret).Issue(at, a, networkOf(1))
		return value
	}
	now, secret := time.Now(), s.secret()
	bad := map[string]string{
		"empty": "", "short": value[:len(value)-1], "long": value + "A", "quoted": `"` + value + `"`, "upper case": strings.ToUpper(value),
		"padded": value + "=", "very long": strings.Repeat("A", 8<<10), "bytes": "\xfe\xff",
		"JWT":          "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiIxIn0.",
		"expired":      issue(secret, now.Add(-30*24*time.Hour), audience),
		"future":       issue(secret, now.Add(time.Hour), audience),
		"another site": issue(secret, now, session.Audience{Site: "example.com", Cookie: session.PlainCookie}),
		"of HTTPS":     issue(secret, now, session.Audience{Site: "127.0.0.1", Cookie: session.SecureCookie}),
		"another key":  issue(other, now, audience),
	}
	raw, _ := base64.RawURLEncoding.DecodeString(value)
	for i := 0; i < len(raw)*8; i += 5 {
		flipped := slices.Clone(raw)
		flipped[i/8] ^= 1 << (i % 8)
		bad[fmt.Sprint("bit ", i)] = base64.RawURLEncoding.EncodeToString(flipped)
	}
	for name, value := range bad {
		if kind := s.kind(from(1), agent(1), "Cookie: rl="+value); kind != "fingerprint" {
			t.Errorf("%s: the client is known by a %s", name, kind)
		}
	}
	for name, field := range map[string]string{
		"another case": "Cookie: RL=" + value, "another name": "Cookie: xrl=" + value, "prefixed": "Cookie: __Host-rl=" + value,
	} {
		if kind := s.kind(from(1), agent(1), field); kind != "fingerprint" {
			t.Errorf("%s: the client is known by a %s", name, kind)
		}
	}
	for name, fields := range map[string][]string{
		"among others":     {"Cookie: a=b; rl=" + value + "; c=d"},
		"behind a bad one": {"Cookie: rl=" + bad["bit 5"] + "; rl=" + value},
		"in two fields":    {"Cookie: rl=nonsense", cookie},
	} {
		if kind := s.kind(append(fields, from(1), agent(1))...); kind != "session" {
			t.Errorf("%s: the client is known by a %s", name, kind)
		}
	}
	if kind := s.kind(from(1), agent(1), "Cookie: "+strings.Repeat("rl=x; ", 20)+"rl="+value); kind != "fingerprint" {
		t.Errorf("behind twenty others: the client is known by a %s", kind)
	}
	if n := strings.Count(s.logs(), "\n"); n > 60 {
		t.Errorf("the log has %d lines", n)
	}
}

// A session is one quota, wherever it is used; elsewhere it has a quarter of it,
// so that its owner's is left.
func TestSessionElsewhere(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("", "limit 8/1h"))
	cookie := s.earn(from(1), agent(1))
	passed := 0
	for i := range 50 {
		passed += s.passed(1, "/", from(10+i), agent(1), cookie)
	}
	if passed != 2 {
		t.Errorf("elsewhere a session got %d of 8, want 2", passed)
	}
	s.wantPassed(6, 10, "/", from(1), agent(1), cookie)
	s.wantPassed(8, 10, "/", from(10), agent(2))
	// A client that has moved can earn another.
	if a := s.get("/", append(navigation, from(10), agent(1), cookie)...); !strings.Contains(a.body, "data-puzzle") {
		t.Errorf("who has moved is answered with %d %.100q", a.status, a.body)
	}
}

func TestSessionIsRenewedAtHalfOfItsLife(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, strings.Replace(withSessions("lifetime 10h", "limit 4/1h"), "respond ", "header /shared Cache-Control \"public, max-age=60\"\nrespond ", 1))
	s.get("/")
	signer := session.New(s.secret(), 10*time.Hour)
	aged := func(by time.Duration) string {
		_, value := signer.Issue(time.Now().Add(-by), audience, networkOf(1))
		return "Cookie: rl=" + value
	}
	if a := s.get("/", from(1), aged(4*time.Hour)); len(a.header.Values("Set-Cookie")) > 0 {
		t.Error("a young session is renewed")
	}
	old := aged(6 * time.Hour)
	if a := s.get("/shared", from(1), old); len(a.header.Values("Set-Cookie")) > 0 || a.status != http.StatusOK {
		t.Errorf("a session is in an answer that caches may share: %d %v", a.status, a.header)
	}
	renewed := cookieOf(t, s.get("/", from(1), old))
	s.wantPassed(2, 4, "/", from(1), renewed) // it goes on with what is left
	if a := s.get("/", from(2), aged(6*time.Hour)); len(a.header.Values("Set-Cookie")) > 0 {
		t.Error("a session is renewed elsewhere")
	}
	if kind := s.kind(from(1), aged(11*time.Hour)); kind == "session" {
		t.Error("a session outlives its life")
	}
	// A shorter life holds for those that are out there.
	s.mustReload(withSessions("lifetime 5h", "limit 4/1h"))
	if kind := s.kind(from(1), old); kind == "session" {
		t.Error("a session outlives its new life")
	}
}

func TestSecretsRotate(t *testing.T) {
	t.Parallel()
	s := newServer(t, strings.Replace(withSessions("", "limit 100/1h"), "session {", "secret_file {$DIR}/secret\nsession {", 1))
	write := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.dir, "secret"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := strings.Repeat("first secret ", 3), strings.Repeat("second secret ", 3)
	write(first)
	s.start()
	cookie := s.earn(from(1))
	s.stop()
	write(second, first)
	s.start()
	a := s.get("/", from(1), cookie)
	if !strings.Contains(a.body, " session ") {
		t.Fatalf("under a new secret before the old one: %q", a.body)
	}
	renewed := cookieOf(t, a)
	s.stop()
	write(second)
	s.start()
	if kind := s.kind(from(1), cookie); kind == "session" {
		t.Error("a session is good under a secret that is gone")
	}
	if kind := s.kind(from(1), renewed); kind != "session" {
		t.Errorf("a session that was renewed under the new secret is known by a %s", kind)
	}
}

// Nobody behind the handler sees the cookie.
func TestSessionCookieStaysHere(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, strings.Replace(withSessions("", "limit 100/1h"), `respond "`, `respond "[{http.request.header.Cookie}] `, 1))
	cookie := s.earn(from(1))
	for fields, want := range map[string]string{
		cookie:                                   "[] ",
		cookie + "; a=b":                         "[a=b] ",
		"Cookie: a=b; " + cookie[8:] + "; c=d":   "[a=b; c=d] ",
		"Cookie: rl=nonsense; Rl=x; url=1; rl2=": "[Rl=x; url=1; rl2=] ",
		"Cookie: a=b":                            "[a=b] ",
	} {
		if a := s.get("/", from(1), fields); !strings.HasPrefix(a.body, want) {
			t.Errorf("of %q what comes through is %q, want %q", fields, a.body, want)
		}
	}
}

func TestTargetsStayOnTheSite(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("max_sessions_per_prefix 1000", "limit 3/1h"))
	for i, target := range []string{
		"//evil.example/", "https://evil.example/", `/\evil.example`, "/%2f/evil.example", "javascript:alert(1)", "",
		endpoint, endpoint + "?target=/x", "/a\r\nSet-Cookie: x=y",
	} {
		a := s.post(solve(t, s.get(endpoint, from(i)).body, target), from(i))
		if got := a.header.Get("Location"); a.status != http.StatusSeeOther || got != "/" {
			t.Errorf("%q leads to %q with status %d", target, got, a.status)
		}
	}
}

func TestEndpoint(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("path /check/", "limit 1/1h"))
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/check/", 200}, {"HEAD", "/check/", 200}, {"PUT", "/check/", 405}, {"DELETE", "/check/", 405},
		{"GET", "/check/more", 404}, {"GET", endpoint, 200}, {"GET", "/check", 429},
	} {
		a := s.send(c.method, c.path, from(1), agent(1))
		if a.status != c.status {
			t.Errorf("%s %s has status %d, want %d", c.method, c.path, a.status, c.status)
		}
		if strings.HasPrefix(c.path, "/check/") && a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s may be stored: %v", c.method, c.path, a.header)
		}
	}
	if a := s.get("/check/?target=/back", from(1)); !strings.Contains(a.body, `value="/back"`) {
		t.Error("the page doesn't lead to where it was told")
	}
}

func TestSessionsOverPlainHTTPAreWarnedOf(t *testing.T) {
	t.Parallel()
	const message = "sessions over plain HTTP can be read and taken over on the way; use HTTPS, here or at a proxy in front"
	s := startCaddy(t, withSessions("", "limit 3/1h"))
	if n := len(s.logLines(message)); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
}

func TestSessionsLeaveNothingInLogsAndMetrics(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, strings.Replace(withSessions("", "limit 3/1h"), "respond ", "log\nrespond ", 1))
	cookie := s.earn(from(77), agent(1))
	s.passed(5, "/", from(77), agent(1), cookie)
	s.passed(5, "/", from(77), agent(2))
	s.get("/", append(navigation, from(77), agent(2))...)
	s.stop()
	value := cookie[len("Cookie: rl="):]
	for line := range strings.Lines(s.logs()) {
		if strings.Contains(line, "http.log.access") {
			line = strings.ReplaceAll(line, "192.0.2.77", "") // which is Caddy's
		}
		if strings.Contains(line, value) || strings.Contains(line, "192.0.2.77") {
			t.Errorf("a line shows a client: %s", line)
		}
	}
}

var pageToken = regexp.MustCompile(`<noscript><meta http-equiv="refresh" content="(\d+);url=([^"]*)"></noscript>`)

// A browser without JavaScript waits, and has a session then. It is not one before, with another's
// token or with one twice; and by default there is no such way.
func TestSessionWithoutScript(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, perClient("session {\nchallenge proof_of_work 8\n}", "on_exceeded challenge\nlimit 1/1h"))
	one := []string{from(1), agent(1)}
	setter := challenge.New(s.secret(), 0)
	ready := func(network int) string { // a token whose time is over
		token := setter.SetWait(time.Now().Add(-30*time.Second), audience.Site, networkOf(network), 10*time.Second)
		return endpoint + "?" + url.Values{"wait": {token.Token}, "target": {"/where?x=1"}}.Encode()
	}
	s.wantPassed(1, 1, "/", one...)
	if a := s.get("/", append(slices.Clone(one), navigation...)...); !strings.Contains(a.body, "data-puzzle") || pageToken.MatchString(a.body) {
		t.Errorf("by default the page is %s", a.body)
	}
	if a := s.get(ready(1), one...); a.status != http.StatusOK || a.header.Get("Set-Cookie") != "" {
		t.Errorf("by default a token is answered with %d, %v", a.status, a.header)
	}

	s.mustReload(perClient("session {\nchallenge proof_of_work 8 {\nwithout_script 10s\n}\n}", "on_exceeded challenge\nlimit 1/1h"))
	a := s.get("/where?x=1", append(slices.Clone(one), navigation...)...)
	found := pageToken.FindStringSubmatch(a.body)
	if found == nil || found[1] != "10" && found[1] != "11" {
		t.Fatalf("the page has no token that is good in ten seconds: %s", a.body)
	}
	if a := s.get(html.UnescapeString(found[2]), one...); a.status != http.StatusForbidden || !strings.Contains(a.body, "That was too early.") || a.header.Get("Set-Cookie") != "" || !pageToken.MatchString(a.body) {
		t.Errorf("before its time a token is answered with %d, %v: %s", a.status, a.header, a.body)
	}
	if a := s.get(ready(2), one...); a.status != http.StatusForbidden || a.header.Get("Set-Cookie") != "" {
		t.Errorf("another network's token is answered with %d, %v", a.status, a.header)
	}
	token := ready(1)
	for name, says := range map[string][]string{
		"a picture elsewhere":                      {"Accept: image/avif,image/webp,*/*;q=0.8", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"},
		"a picture elsewhere, over plain HTTP":     {"Accept: image/avif,image/webp,*/*;q=0.8", "Referer: http://evil.test/"},
		"a picture that hides where":               {"Accept: image/avif,image/webp,*/*;q=0.8"},
		"a frame elsewhere":                        with(navigation[:1], "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"),
		"a script of a sibling":                    {"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors"},
		"a page that is loaded ahead":              with(navigation, "Sec-Fetch-Site: none", "Sec-Purpose: prefetch"),
		"a page that is loaded ahead for its site": with(navigation, "Sec-Fetch-Site: same-origin", "Sec-Purpose: prefetch;prerender", "Referer: http://127.0.0.1:"+s.port+"/"),
	} {
		if a := s.get(token, with(one, says...)...); a.status != http.StatusForbidden || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s redeems a token: %d, %v", name, a.status, a.header)
		}
	}
	if a := s.send(http.MethodHead, token, one...); a.status != http.StatusOK || a.header.Get("Set-Cookie") != "" {
		t.Errorf("HEAD is answered with %d, %v", a.status, a.header)
	}
	a = s.get(token, one...)
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/where?x=1" {
		t.Fatalf("a token is answered with %d, %v", a.status, a.header)
	}
	if kind := s.kind(append(one, cookieOf(t, a))...); kind != "session" {
		t.Errorf("who has waited is known by a %s", kind)
	}
	if a := s.get(token, one...); a.status != http.StatusForbidden || a.header.Get("Set-Cookie") != "" {
		t.Errorf("the same token is answered with %d, %v", a.status, a.header)
	}
	if strings.Contains(s.mustMetrics(), `caddy_rate_limit_violations_total{reason="forged"} 1`) {
		t.Error("a token that a browser has sent twice counts as a violation")
	}
}
