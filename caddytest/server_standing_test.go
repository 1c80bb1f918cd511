package caddytest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// standing is a Caddyfile of a site with a zone per client, on every page but
// those that are exempt, and a page outside of all zones.
func standing(global, handler, zone string) string {
	return options(`
	rate_limit {
		store_timeout 1m
		pressure off
		`+global+`
	}
	`+trusting) + site(`
	rate_limit {
		zone z {
			match not path /elsewhere*
			per client
			limit `+zone+`
		}
		`+handler+`
	}
	handle_errors {
		respond "{http.rate_limit.exceeded.name} {http.rate_limit.exceeded.limit}"
	}
	respond hello`)
}

// wantBanned sends requests to several pages, all of which must be refused until
// the ban ends, in some seconds at most.
func (s *server) wantBanned(seconds int, fields ...string) {
	s.t.Helper()
	for _, path := range []string{"/", "/elsewhere"} {
		a := s.get(path, fields...)
		if a.status != http.StatusTooManyRequests || a.retryAfter() < 1 || a.retryAfter() > seconds {
			s.t.Errorf("a banned client gets %d from %s, and is to wait for %d s", a.status, path, a.retryAfter())
		}
		if a.body != "ban ban" {
			s.t.Errorf("the page for errors says %q", a.body)
		}
	}
}

// A ban holds over a crash, for all pages, for the one client.
func TestBanSurvivesKill(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, standing("ban after 1 violations in 1h for 1h", "exempt path /health", "3/1h"))
	s.wantPassed(3, 4, "/", from(1), agent(1)) // the fourth one is the violation
	s.wantBanned(3600, from(1), agent(1))
	s.wantPassed(1, 1, "/health", from(1), agent(1))
	s.wantPassed(3, 3, "/", from(1), agent(2))
	waitFor(t, "the ban to be on disk", func() bool { return s.metric("caddy_rate_limit_bans_total") == "1" })
	s.get("/", from(9), agent(9)) // has gone through the store after the ban
	s.kill()
	s.start()
	s.wantBanned(3600, from(1), agent(1))
	if a := s.get("/elsewhere", from(1), agent(2)); a.status != http.StatusOK {
		t.Errorf("another client of the same network gets %d", a.status)
	}
}

// Operators see each ban in the log once: why it is and for how long, and who it is
// only if they ask for it.
func TestBansAreLogged(t *testing.T) {
	t.Parallel()
	const global = "ban after 2 violations in 1h for 1h"
	const traps = "\ntrap path /trap\ntrap ban 30m path /.env"
	for name, handler := range map[string]string{"unnamed": traps, "named": "log_key" + traps} {
		t.Run(name, func(t *testing.T) {
			s := startCaddy(t, standing(global, handler, "3/1h"))
			s.get("/trap", from(1), agent(1))
			s.wantPassed(2, 9, "/", from(1), agent(1)) // the third is the second violation
			s.get("/.env", from(2), agent(1))
			s.get("/elsewhere", from(2), agent(1))
			lines := s.logLines("client banned")
			if len(lines) != 2 {
				t.Fatalf("%d lines for two bans: %v", len(lines), lines)
			}
			for i, want := range []struct {
				reason string
				zone   any
				hours  float64
			}{{"over_limit", "z", 1}, {"trap", nil, 0.5}} {
				line := lines[i]
				wait, _ := line["wait"].(float64)
				if line["reason"] != want.reason || line["zone"] != want.zone || wait > want.hours*3600 || wait < want.hours*3600-60 {
					t.Errorf("line is %v, want %+v", line, want)
				}
				key, _ := line["key"].(string)
				if address := fmt.Sprint("192.0.2.", i+1); name == "named" && (line["client_ip"] != address || !strings.HasPrefix(key, address+"/32 ")) {
					t.Errorf("the line doesn't say that it was %s: %v", address, line)
				}
			}
			if name == "unnamed" && strings.Contains(s.logs(), "192.0.2.") {
				t.Error("the log shows an address")
			}
		})
	}
}

func TestBansEnd(t *testing.T) {
	t.Parallel()
	s := newShifted(t, standing("ban after 1 violations in 1h for 1h", "", "3/1h"))
	s.start()
	s.wantPassed(3, 4, "/", from(1), agent(1))
	s.wantBanned(3600, from(1), agent(1))
	s.pass(50 * time.Minute)
	s.wantBanned(600, from(1), agent(1))
	s.pass(10 * time.Minute)
	if a := s.get("/elsewhere", from(1), agent(1)); a.status != http.StatusOK {
		t.Errorf("after its ban a client gets %d", a.status)
	}
}

// A client that visits traps gets less and less, also after a restart, and what is exempt
// is no trap.
func TestTraps(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, standing("reputation {\ntrap 80\n}", `
		trap path /wp-login.php
		trap ban 1h path /.env
		exempt header X-Monitor *`, "20/1h"))
	s.get("/elsewhere/no-trap", from(1), agent(1))
	s.get("/.env", from(1), agent(1), "X-Monitor: yes")
	s.wantPassed(20, 22, "/", from(1), agent(1))

	s.get("/wp-login.php", from(2), agent(1)) // is counted itself
	s.wantPassed(1, 5, "/", from(2), agent(1))
	waitFor(t, "the visit to be on disk", func() bool { return s.metric(`caddy_rate_limit_violations_total{reason="trap"}`) == "1" })
	s.stop()
	s.start()
	s.get("/wp-login.php", from(3), agent(1))
	s.wantPassed(0, 3, "/", from(2), agent(1))

	if a := s.get("/.env", from(4), agent(1)); a.status != http.StatusTooManyRequests {
		t.Errorf("a trap that bans answers %d", a.status)
	}
	s.wantBanned(3600, from(4), agent(1))
}

// A client that sends another name with each visit makes no row with each visit.
func TestTrapsPunishSoManyOfANetwork(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, standing("", "trap path /trap", "5/1h"))
	for i := range 200 {
		s.get("/trap", from(1), agent(i))
	}
	s.get("/trap", from(2), agent(0))
	if got := s.metric(`caddy_rate_limit_violations_total{reason="trap"}`); got != "61" {
		t.Errorf("%s clients were punished, want 60 of one network and 1 of another", got)
	}
}

// Of many first visits at once to a trap that bans, none is let through: neither while
// the client is being read, nor those of clients that are too many to be punished.
func TestTrapThatBansLetsNobodyThrough(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, standing("", "trap ban 1h path /.env\nlog_key", "20/1h"))
	for n := range 5 {
		if passed := s.passedOfBurst(400, "/.env", from(n), agent(1)); passed > 0 {
			t.Errorf("of 400 first visits at once, %d were let through", passed)
		}
		s.wantBanned(3600, from(n), agent(1))
	}
	for n := range 70 {
		if a := s.get("/.env", from(9), agent(n)); a.status != http.StatusTooManyRequests || a.retryAfter() < 1 {
			t.Fatalf("visit %d of a network gets %d, and is to wait for %d s", n, a.status, a.retryAfter())
		}
	}
	s.wantPassed(1, 1, "/", from(9), agent(70)) // too many to be punished
	for _, line := range s.logLines("client banned") {
		if line["reason"] != "trap" && line["key"] == nil {
			t.Errorf("a ban is logged as %v", line)
		}
	}
}

// The visits of a client that is banned don't use up what its network may be punished for.
func TestVisitsOfABannedClientTakeNothingOfItsNetwork(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, standing("", "trap ban 1h path /.env", "20/1h"))
	for range 100 {
		s.get("/.env", from(1), agent(1))
	}
	s.get("/.env", from(1), agent(2))
	s.wantBanned(3600, from(1), agent(2))
}

// With reputation off nothing is scaled, and bans still ban.
func TestReputationOff(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, standing("reputation off", "trap path /trap", "5/1h"))
	for range 3 {
		s.get("/trap", from(1), agent(1))
	}
	s.wantPassed(2, 4, "/", from(1), agent(1))
}

// metric returns the value of a series.
func (s *server) metric(series string) string {
	s.t.Helper()
	metrics, err := s.metrics()
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(metrics) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			return value
		}
	}
	return ""
}

// What a client has done is told to those who ask for it.
func TestClientsCanBeToldWhy(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(patient+trusting)+site(`
	rate_limit {
		trap path /trap
		zone z {
			per client
			limit 3/1h
		}
	}
	handle_errors {
		respond "{http.rate_limit.client.score} for {http.rate_limit.client.violations}"
	}
	respond "{http.rate_limit.client.score} for {http.rate_limit.client.violations}"`))
	if a := s.get("/", from(1), agent(1)); a.body != "100 for " {
		t.Errorf("at first a client is told %q", a.body)
	}
	s.get("/trap", from(1), agent(1))
	s.get("/", from(1), agent(1))
	s.get("/", from(1), agent(1)) // is refused, which is the second violation
	if a := s.get("/", from(1), agent(1)); a.body != "70 for over_limit, trap" {
		t.Errorf("in the end a client is told %q", a.body)
	}
}

// A client that sends a solution again loses points.
func TestForgeries(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("", "limit 20/1h"))
	form := solve(t, s.get(endpoint, from(1), agent(1)).body, "/")
	for range 2 {
		s.post(form, from(1), agent(1))
	}
	if got := s.metric(`caddy_rate_limit_violations_total{reason="forged"}`); got != "1" {
		t.Errorf("%q forgeries were noted, want 1", got)
	}
}
