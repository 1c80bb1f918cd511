package caddytest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// elsewhere is what requests say that a page of another site has a browser send.
var elsewhere = map[string][]string{
	"picture":              {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"},
	"script":               {"Sec-Fetch-Site: cross-site", "Origin: http://evil.test"},
	"frame":                {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"},
	"sibling":              {"Sec-Fetch-Site: same-site"},
	"link":                 {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"},
	"picture, plain HTTP":  {"Referer: http://evil.test/"},
	"script, plain HTTP":   {"Origin: http://evil.test"},
	"sandbox, plain HTTP":  {"Origin: null"},
	"link, plain HTTP":     {"Upgrade-Insecure-Requests: 1", "Referer: http://evil.test/"},
	"no referrer, picture": {"Accept: image/*"},
}

// typed is what a browser says when its user comes by an address.
const typed = "Sec-Fetch-Site: none"

// with returns fields and more of them.
func with(fields []string, more ...string) []string {
	return append(append([]string(nil), fields...), more...)
}

// What another site has a browser send bans nobody's own visits, whatever that is,
// and is banned itself.
func TestTrapsThatOthersLeadInto(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, standing("", "trap ban 1h path /trap", "20/1h"))
	n := 0
	for name, says := range elsewhere {
		n++
		one := []string{from(n), agent(1)}
		if a := s.get("/trap", with(says, one...)...); a.status != http.StatusTooManyRequests {
			t.Errorf("%s: the trap answers %d", name, a.status)
		}
		s.wantPassed(0, 2, "/", with(says, one...)...)
		for _, own := range []string{typed, "Sec-Fetch-Site: same-origin", "Upgrade-Insecure-Requests: 1"} {
			if a := s.get("/", with(one, own)...); a.status != http.StatusOK {
				t.Errorf("%s: afterwards a visit with %q gets %d", name, own, a.status)
			}
		}
	}
	for i, own := range []string{typed, "Sec-Fetch-Site: same-origin", "Referer: http://127.0.0.1:" + s.port + "/"} {
		one := []string{from(100 + i), agent(1)}
		s.get("/trap", with(one, own)...)
		s.wantBanned(3600, with(one, own)...)
		for name, says := range elsewhere { // a ban can't be talked away
			if a := s.get("/", with(says, one...)...); a.status != http.StatusTooManyRequests {
				t.Errorf("%s: a banned client that says so gets %d", name, a.status)
			}
		}
	}
}

// A scanner is trapped whatever it says on all of its requests, and if it says
// nothing at all.
func TestNothingIsSaidToBeSafeFromTraps(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, standing("", "trap path /points\ntrap ban 1h path /trap", "40/1h"))
	scanners := map[string][]string{
		"silent":         {"User-Agent: "},
		"silent, led":    {"User-Agent: ", "Sec-Fetch-Site: cross-site"},
		"nonsense":       {agent(1), "Sec-Fetch-Site: nonsense"},
		"language alone": {"User-Agent: ", "Accept-Language: de"},
	}
	for name, says := range elsewhere {
		scanners[name] = with(says, agent(1))
	}
	n := 0
	for name, says := range scanners {
		n++
		says = with(says, from(n))
		s.get("/points", says...)
		s.get("/trap", says...)
		for _, path := range []string{"/", "/elsewhere"} {
			if a := s.get(path, says...); a.status != http.StatusTooManyRequests || a.retryAfter() < 3500 {
				t.Errorf("%s: after a visit to a trap %s answers %d, and is to be waited for %d s", name, path, a.status, a.retryAfter())
			}
		}
	}
}

// What another site has a browser send takes nothing from the user's own limit, and
// its violations are not the user's.
func TestOtherSitesUseUpNobodysLimit(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, standing("ban after 1 violations in 1h for 1h", "", "5/1h"))
	n := 0
	for name, says := range elsewhere {
		n++
		one := []string{from(n), agent(1)}
		if passed := s.passed(30, "/", with(says, one...)...); passed != 5 {
			t.Errorf("%s: %d requests passed a limit of 5", name, passed)
		}
		if passed := s.passed(7, "/", with(one, typed)...); passed != 5 {
			t.Errorf("%s: afterwards %d of 7 visits passed a limit of 5", name, passed)
		}
	}
	// However a script varies what it may choose, it has one limit.
	passed := 0
	for _, language := range []string{"de", "en", "fr", "it", "es", "pt"} {
		passed += s.passed(6, "/", from(200), agent(1), "Sec-Fetch-Site: cross-site", "Accept-Language: "+language)
	}
	if passed != 5 {
		t.Errorf("a script with many languages passed a limit of 5 %d times", passed)
	}
	// All that a client can say of it together is held by its network's ceiling.
	passed = 0
	for _, says := range elsewhere {
		passed += s.passed(6, "/", with(says, from(201), agent(1))...)
	}
	if passed > 20 {
		t.Errorf("a client with many initiators had %d, and its network's ceiling is 20", passed)
	}
}

// A session that another site uses, as a link does, is out of its owner's quota, and
// a quarter of it at most; what it does there is not held against its owner.
func TestSessionsThatOthersUse(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(`
	rate_limit {
		store_timeout 1m
		ban after 1 violations in 1h for 1h
		session {
			challenge proof_of_work 8
		}
	}
	`+trusting)+site(`
	rate_limit {
		trap ban 2h path /trap
		zone z {
			per client
			limit 8/1h
		}
	}
	respond hello`))
	n := 0
	for name, says := range elsewhere {
		if strings.HasPrefix(name, "no referrer") {
			continue // carries no session: the cookie is SameSite
		}
		n++
		one := []string{from(n), agent(1), s.earn(from(n), agent(1))}
		led := with(says, one...)
		if passed := s.passed(20, "/", led...); passed != 2 {
			t.Errorf("%s: a session had %d of 8, want 2", name, passed)
		}
		if a := s.get("/trap", led...); a.status != http.StatusTooManyRequests || a.retryAfter() < 7000 {
			t.Errorf("%s: a session that is led into a trap gets %d, and is to wait for %d s", name, a.status, a.retryAfter())
		}
		if passed := s.passed(6, "/", with(one, typed)...); passed != 6 {
			t.Errorf("%s: %d of 6 requests passed that were left for its owner", name, passed)
		}
		s.get("/trap", with(one, typed)...)
		if a := s.get("/", led...); a.status != http.StatusTooManyRequests {
			t.Errorf("%s: a banned session gets %d", name, a.status)
		}
	}
}

// A program with a session says nothing of sites, and has all of it.
func TestSessionsOfPrograms(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("", "limit 8/1h"))
	s.wantPassed(8, 10, "/", from(1), agent(1), s.earn(from(1), agent(1)))
}

// What a trap says of a ban is for clients that can't be mistaken for others. Those
// that are not verified are banned for an hour, and may earn a session meanwhile.
func TestTrapsBanWhoIsNotVerifiedForAnHour(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(`
	rate_limit {
		store_timeout 1m
		session {
			challenge proof_of_work 8
		}
	}
	`+trusting)+site(`
	rate_limit {
		trap ban 24h path /trap
		zone z {
			per client
			limit 20/1h
		}
	}
	respond hello`))
	one := []string{from(1), agent(1)}
	page := with(navigation, one...)
	if a := s.get("/trap", page...); a.status != http.StatusTooManyRequests || a.retryAfter() > 3600 || a.retryAfter() < 3500 {
		t.Errorf("a trap is answered with %d, and is to be waited for %d s", a.status, a.retryAfter())
	} else if strings.Contains(a.body, "data-puzzle") {
		t.Error("in a trap there is a challenge, which would lead into it again")
	}
	if a := s.get("/", one...); a.status != http.StatusTooManyRequests || a.retryAfter() > 3600 || a.body != "Too Many Requests\n" {
		t.Errorf("after it a program gets %d %q, and is to wait for %d s", a.status, a.body, a.retryAfter())
	}
	a := s.get("/", page...)
	if a.status != http.StatusTooManyRequests || a.retryAfter() > 3600 || !strings.Contains(a.body, "data-puzzle") {
		t.Fatalf("after it a person gets %d %.100q, and is to wait for %d s", a.status, a.body, a.retryAfter())
	}
	a = s.post(solve(t, a.body, "/"), one...)
	if a.status != http.StatusSeeOther {
		t.Fatalf("a solution is answered with %d", a.status)
	}
	session := with(one, cookieOf(t, a))
	if a := s.get("/", session...); a.status != http.StatusOK {
		t.Errorf("with a session the person gets %d", a.status)
	}
	s.get("/trap", session...)
	if a := s.get("/", with(navigation, session...)...); a.status != http.StatusTooManyRequests || a.retryAfter() < 86000 || strings.Contains(a.body, "data-puzzle") {
		t.Errorf("a session that went into a trap gets %d %.100q, and is to wait for %d s", a.status, a.body, a.retryAfter())
	}
	if a := s.get("/", with(navigation, from(2), agent(1), session[2])...); a.status != http.StatusTooManyRequests || strings.Contains(a.body, "data-puzzle") {
		t.Errorf("elsewhere it gets %d %.100q", a.status, a.body)
	}
}

// Over plain HTTP a page elsewhere can pose as a typed address: whoever bans for
// visits to traps is told so when the config is loaded, and only then.
func TestTrapsOverPlainHTTPAreWarnedOf(t *testing.T) {
	t.Parallel()
	const message = "trap: over plain HTTP browsers don't say that a page of another site leads them into a trap, so it can have its visitors banned"
	const handler = "\nrespond hello"
	for name, c := range map[string]struct {
		site string
		want int
	}{
		"ban":             {site("rate_limit {\ntrap path /a\ntrap ban 1h path /b\ntrap ban 1h path /c\n}" + handler), 1},
		"points":          {site("rate_limit {\ntrap path /a\n}" + handler), 0},
		"HTTPS":           {"https://127.0.0.1:{$TLS} {\ntls internal\nrate_limit {\ntrap ban 1h path /b\n}" + handler + "\n}\n", 0},
		"points and bans": {site("rate_limit {\ntrap path /a\n}" + handler), 1},
	} {
		t.Run(name, func(t *testing.T) {
			global := ""
			if name == "points and bans" {
				global = "ban after 3 violations in 1h for 1h"
			}
			s := startCaddy(t, options("rate_limit {\n"+global+"\n}")+c.site)
			lines := s.logLines(message)
			if len(lines) != c.want {
				t.Fatalf("%d warnings, want %d", len(lines), c.want)
			}
			for _, line := range lines {
				if at, _ := line["at"].(string); !strings.Contains(at, "Caddyfile:") || line["write"] == nil {
					t.Errorf("the warning is %v", line)
				}
			}
		})
	}
}

// However often pages of other sites make their visitors ask for challenges, some are left for
// people who need one.
func TestOtherSitesUseUpNobodysChallenges(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("", "limit 3/1h"))
	refused := 0
	for range 100 {
		if s.get(endpoint, from(1), agent(1), "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors").status == http.StatusTooManyRequests {
			refused++
		}
		s.post(nil, from(1), agent(1), "Sec-Fetch-Site: cross-site", "Origin: http://evil.test")
	}
	if refused == 0 {
		t.Error("another site's visitors were never refused")
	}
	s.earn(from(1), agent(1), typed)
}

// A session inherits what its client has done also if another site is said to have
// sent the solution.
func TestSolutionsLeaveNoRecordBehind(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(`
	rate_limit {
		store_timeout 1m
		session {
			challenge proof_of_work 8
		}
		reputation {
			trap 40
		}
	}
	`+trusting)+site(`
	rate_limit {
		trap path /trap
		zone z {
			per client
			limit 20/1h
		}
	}
	respond {http.rate_limit.client.score}`))
	n := 0
	for name, says := range elsewhere {
		n++
		one := []string{from(n), agent(1)}
		s.get("/trap", with(one, typed)...)
		session := s.earn(with(says, one...)...)
		if a := s.get("/", with(one, session, typed)...); a.body != "60" {
			t.Errorf("%s: the score of a session is %q, want 60", name, a.body)
		}
	}
}

// loadedAhead is what browsers say when they load a page ahead that a page elsewhere has named.
var loadedAhead = map[string][]string{
	"speculation rules":       {typed, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Purpose: prefetch", "Referer: http://evil.test/"},
	"rules that hide where":   {typed, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Purpose: prefetch"},
	"prerender":               {typed, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Purpose: prefetch;prerender"},
	"link":                    {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Purpose: prefetch"},
	"older Chromium":          {typed, "Purpose: prefetch"},
	"Safari":                  {"Upgrade-Insecure-Requests: 1", "X-Purpose: preview"},
	"older Firefox":           {"Upgrade-Insecure-Requests: 1", "X-Moz: prefetch"},
	"a page that begins like": {typed, "Sec-Purpose: prefetch", "Referer: http://127.0.0.1.evil.test/"},
}

// What a browser loads ahead isn't what its user does: it uses up nothing of the user's limit, and
// no trap punishes it. A trap that bans refuses it all the same.
func TestPagesLoadedAheadAreNoEvidence(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, standing("ban after 1 violations in 1h for 1h", "trap path /points\ntrap ban 1h path /trap", "5/1h"))
	own := "Referer: http://127.0.0.1:" + s.port + "/"
	n := 0
	for name, says := range loadedAhead {
		n++
		one := []string{from(n), agent(1)}
		ahead := with(says, one...)
		if a := s.get("/points", ahead...); a.status != http.StatusOK {
			t.Errorf("%s: a trap that doesn't ban answers %d", name, a.status)
		}
		if a := s.get("/trap", ahead...); a.status != http.StatusTooManyRequests {
			t.Errorf("%s: a trap that bans answers %d", name, a.status)
		}
		s.get("/trap", with(one, own, "Sec-Purpose: prefetch")...)
		if got := s.metric("caddy_rate_limit_bans_total"); got != fmt.Sprint(2*(n-1)) {
			t.Errorf("%s: after a visit to a trap that is loaded ahead there are %s bans", name, got)
		}
		if passed := s.passed(7, "/", ahead...); passed != 4 {
			t.Errorf("%s: %d of 7 passed what was left of a limit of 5", name, passed)
		}
		if passed := s.passed(7, "/", with(one, typed)...); passed != 5 {
			t.Errorf("%s: afterwards %d of 7 visits passed a limit of 5", name, passed)
		}
		waitFor(t, "both to be banned", func() bool { return s.metric("caddy_rate_limit_bans_total") == fmt.Sprint(2*n) })
	}
}

// What the site's own page has a browser load ahead is its user's.
func TestOwnPagesLoadedAheadCount(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, standing("", "", "5/1h"))
	one := []string{from(1), agent(1)}
	ahead := with(one, typed, "Sec-Purpose: prefetch", "Referer: http://127.0.0.1:"+s.port+"/")
	if passed := s.passed(3, "/", ahead...); passed != 3 {
		t.Errorf("%d of 3 passed", passed)
	}
	s.wantPassed(2, 4, "/", with(one, typed)...)
}
