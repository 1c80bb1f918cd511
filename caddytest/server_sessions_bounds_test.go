package caddytest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/session"
)

// However many sessions are used in a network that they weren't earned in, together
// they have what its unverified clients have, and leave its own sessions alone.
func TestSessionsElsewhereShareTheCeiling(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("", "limit 8/1h"))
	at := s.earn(from(100), agent(100))
	passed := 0
	for i := range 20 { // each of which may have 2
		passed += s.passed(3, "/", from(100), agent(i), s.earn(from(1+i), agent(i)))
	}
	if passed != 32 {
		t.Errorf("20 sessions got %d in one network, want the 32 of its ceiling", passed)
	}
	s.wantPassed(0, 1, "/", from(100), agent(50))
	s.wantPassed(8, 9, "/", from(100), agent(100), at)
	s.wantPassed(8, 9, "/", from(1), agent(50)) // the networks that they are from have lost nothing
}

// A network has so many valid sessions, however slowly they are earned, and over a
// restart.
func TestLiveSessionsOfANetworkAreCapped(t *testing.T) {
	t.Parallel()
	s := newShifted(t, withSessions("lifetime 1d\nmax_sessions_per_prefix 1", "limit 3/1h"))
	s.start()
	want := func(status int) {
		t.Helper()
		a := s.post(solve(t, s.get(endpoint, from(1)).body, "/"), from(1))
		if a.status != status || status == http.StatusTooManyRequests && (a.retryAfter() < 1 || len(a.header.Values("Set-Cookie")) > 0) {
			t.Errorf("a solution is answered with %d and %v, want %d", a.status, a.header, status)
		}
	}
	for range 10 {
		want(http.StatusSeeOther)
		want(http.StatusTooManyRequests) // of the hour
		s.pass(2 * time.Hour)
	}
	want(http.StatusTooManyRequests) // of all
	s.stop()
	s.pass(2 * time.Hour)
	s.start()
	want(http.StatusTooManyRequests)
	s.earn(from(2))
	s.pass(4 * time.Hour)
	want(http.StatusSeeOther)
}

// A session that is renewed counts among those of its network, once in a while.
func TestRenewedSessionsAreCapped(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("lifetime 10h\nmax_sessions_per_prefix 1", "limit 100/1h"))
	s.get("/")
	signer := session.New(s.secret(), 10*time.Hour)
	old := func() string {
		_, value := signer.Issue(time.Now().Add(-6*time.Hour), audience, networkOf(1))
		return "Cookie: rl=" + value
	}
	want := func(what, cookie string, renewed bool) {
		t.Helper()
		a := s.get("/", from(1), cookie)
		if got := len(a.header.Values("Set-Cookie")) > 0; got != renewed || a.status != http.StatusOK || !strings.Contains(a.body, " session ") {
			t.Errorf("%s: renewed: %v, want %v: %d %s", what, got, renewed, a.status, a.body)
		}
	}
	one := old()
	want("one", one, true)
	want("one again", one, false)
	for range 9 {
		want("another", old(), true)
	}
	want("the eleventh", old(), false)
	if a := s.post(solve(t, s.get(endpoint, from(1)).body, "/"), from(1)); a.status != http.StatusTooManyRequests {
		t.Errorf("a network that has all its sessions gets another, with %d", a.status)
	}
}

// trapping is a Caddyfile with sessions and traps: one costs 80 points, one bans.
func trapping(limit string) string {
	return strings.Replace(withSessions("", "limit "+limit), "zone z {", "trap path /trap\ntrap ban 1h path /.env\nzone z {", 1)
}

func withTrapPoints(config string) string {
	return strings.Replace(config, "session {", "pressure off\nreputation {\ntrap 80\n}\nsession {", 1)
}

// A banned session earns no other one, also after a restart.
func TestBanHoldsWhereSessionsAreEarned(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, trapping("20/1h"))
	cookie := s.earn(from(1), agent(1))
	form := solve(t, s.get(endpoint, from(1), agent(1), cookie).body, "/")
	s.get("/.env", from(1), agent(1), cookie)
	want := func() {
		t.Helper()
		for _, a := range []answer{s.get(endpoint, from(1), agent(1), cookie), s.post(form, from(1), agent(1), cookie)} {
			if a.status != http.StatusTooManyRequests || a.retryAfter() < 3000 || len(a.header.Values("Set-Cookie")) > 0 {
				t.Errorf("a banned client is answered with %d %v %.100q", a.status, a.header, a.body)
			}
		}
	}
	want()
	waitFor(t, "the ban to be on disk", func() bool { return s.metric("caddy_rate_limit_bans_total") == "1" })
	s.stop()
	s.start()
	want()
	s.wantPassed(20, 21, "/", from(1), agent(1), s.earn(from(1), agent(1))) // who looks the same has done nothing
}

// A session is no better than who has earned it, and of what somebody else in the
// network may have done it bears a part.
func TestSessionsInheritRecords(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withTrapPoints(trapping("20/1h")))
	earned := func(fields ...string) []string { return append(fields, s.earn(fields...)) }

	good := earned(from(1), agent(1))
	s.get("/trap", good...)
	worse := append([]string{from(1), agent(1)}, cookieOf(t, s.post(form(t, s, good...), good...)))
	s.wantPassed(2, 4, "/", worse...) // critical: 10 %

	s.get("/trap", from(2), agent(1))
	s.wantPassed(12, 14, "/", earned(from(2), agent(1))...) // not worse than medium: 60 %
	s.wantPassed(20, 22, "/", earned(from(2), agent(2))...)

	s.get("/.env", from(3), agent(1))
	banned := earned(from(3), agent(1))
	s.wantPassed(12, 14, "/", banned...)
	s.wantPassed(0, 1, "/", from(3), agent(1))
	if got := s.metric(`caddy_rate_limit_violations_total{reason="inherited"}`); got != "" {
		t.Errorf("%q violations were inherited", got)
	}
}

// form returns the solution of the puzzle that a client is set.
func form(t *testing.T, s *server, fields ...string) url.Values {
	t.Helper()
	return solve(t, s.get(endpoint, fields...).body, "/")
}
