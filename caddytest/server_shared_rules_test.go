package caddytest

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
)

// wantEverywhere waits until all machines answer a client with a status.
func wantEverywhere(t *testing.T, fleet []*server, status, client int, what string) {
	t.Helper()
	for _, s := range fleet {
		waitFor(t, what, func() bool { return s.get("/", from(client)).status == status })
	}
}

// What an operator states on one machine of a store holds on all: also after a reload and a
// restart, in an outage, and when the store has lost its data.
func TestRulesHoldOnAllMachines(t *testing.T) {
	t.Parallel()
	redis := newRedis(t)
	fleet := startFleet(t, redis, 2, onRedis("limit 1000/1h"))
	a, b := fleet[0], fleet[1]
	a.wantCommand(t, 0, []string{"ban", "192.0.2.1", "--reason", "scraper"}, "192.0.2.1 is banned until it is lifted, on all machines that share the store.")
	if got := a.get("/", from(1)).status; got != http.StatusTooManyRequests {
		t.Errorf("right after the ban: %d", got)
	}
	wantEverywhere(t, fleet, http.StatusTooManyRequests, 1, "the ban to hold on both")
	b.wantCommand(t, 0, []string{"ban", "192.0.2.2"}, "banned")
	b.wantCommand(t, 0, []string{"bans"}, "192.0.2.1", "store", "scraper")
	wantEverywhere(t, fleet, http.StatusTooManyRequests, 2, "the second ban to hold on both")
	for _, s := range fleet {
		if _, err := os.Stat(s.rulesFile()); err == nil {
			t.Error("a rules file was written")
		}
		s.wantCommand(t, 0, []string{"status"}, "2 bans and 0 allowances in the store")
	}
	for text, want := range map[string]string{"ban": ":1", "192.0.2": ":0", "scraper": ":0"} {
		const look = "return string.find(table.concat(redis.call(unpack(ARGV, 2))), ARGV[1], 1, true) and 1 or 0"
		if got := redis.Must(t, "EVAL", look, "0", text, "ZRANGE", "{tally}:acts", "0", "-1"); got != want {
			t.Errorf("the audit in the Redis has %q: %s, want %s", text, got, want)
		}
		if got := redis.Must(t, "EVAL", look, "0", text, "HVALS", "{tally}:notes"); got != ":0" {
			t.Errorf("the notes in the Redis have %q", text)
		}
	}
	b.wantCommand(t, 0, words("audit --client 192.0.2.1"), "admin", "ban", "scraper")

	b.wantCommand(t, 0, []string{"unban", "192.0.2.1"}, "Lifted 1 ban of 192.0.2.1", "if the rules file of another machine has a line about it, remove it there")
	wantEverywhere(t, fleet, http.StatusOK, 1, "the end of the ban on both")

	testReloadsWithBans(t, a)
	b.kill()
	b.start()
	if got := b.get("/", from(2)).status; got != http.StatusTooManyRequests {
		t.Errorf("the first request after a restart: %d", got)
	}
	testBansInAnOutage(t, redis, fleet)
}

// testReloadsWithBans reloads with the same engine, with another, and with one that can't reach the
// store, while a banned client sends requests.
func testReloadsWithBans(t *testing.T, s *server) {
	t.Helper()
	passed := 0
	stop := repeat(1, func(int) {
		if a, err := s.try(http.MethodGet, "/", from(2)); err == nil && a.status == http.StatusOK {
			passed++
		}
	})
	defer stop()
	for _, options := range []string{"ipv4_prefix 24", "max_keys 2000", "max_keys 3000\nipv4_prefix 32"} {
		s.mustReload(strings.Replace(onRedis("limit 1000/1h"), "store_timeout 2s", "store_timeout 2s\n"+options, 1))
	}
	if stop(); passed > 0 {
		t.Errorf("%d requests of a banned client passed during reloads", passed)
	}
}

// testBansInAnOutage has the Redis come back without its data.
func testBansInAnOutage(t *testing.T, redis *testserver.RedisServer, fleet []*server) {
	t.Helper()
	redis.Kill()
	for _, s := range fleet {
		s.awaitDegraded()
		if got := s.get("/", from(2)).status; got != http.StatusTooManyRequests {
			t.Errorf("in an outage: %d", got)
		}
		for range 2 { // which can be undone in an outage as well
			s.wantPassed(1, 1, "/", from(3))
			s.wantCommand(t, 0, words("ban 192.0.2.3 --reason outage"), "in the rules file of this machine only", "ban 192.0.2.3", "the audit has it once the store is back")
			s.wantPassed(0, 1, "/", from(3))
			s.wantCommand(t, 0, words("unban 192.0.2.3"), "Lifted 1 ban")
		}
		s.wantCommand(t, 1, words("unban 192.0.2.2"), "nothing was changed")
	}
	fleet[1].mustReload(strings.Replace(onRedis("limit 1000/1h"), "store_timeout 2s", "store_timeout 2s\nmax_keys 4000", 1))
	if got := fleet[1].get("/", from(2)).status; got != http.StatusTooManyRequests {
		t.Errorf("after a reload in an outage: %d", got)
	}
	redis.Run(t) // with nothing: it saves nothing
	for _, s := range fleet {
		waitFor(t, "the Redis to be in use again", func() bool { return !s.health().Degraded })
	}
	waitFor(t, "the ban to be back in the store", func() bool { return redis.Must(t, "HLEN", "{tally}:notes") != ":0" })
	for _, s := range fleet { // one of which has been reloaded meanwhile
		s.wantCommand(t, 0, words("audit --client 192.0.2.3"), "unban", "outage")
	}
	if out, _, _ := fleet[0].rateLimit("audit", "--client", "192.0.2.2"); strings.Contains(out, "unban") {
		t.Errorf("the audit has an act that changed nothing:\n%s", out)
	}
	late := newServer(t, onRedis("limit 1000/1h"), "REDIS="+redis.Address(), "REDIS_PASSWORD="+redisPassword)
	late.writeSecret(strings.Repeat("one secret for all ", 3))
	late.start()
	if got := late.get("/", from(2)).status; got != http.StatusTooManyRequests {
		t.Errorf("on a machine that starts after the store has lost its data: %d", got)
	}
	if got := late.get("/", from(1)).status; got != http.StatusOK {
		t.Errorf("a client that is not banned any more: %d", got)
	}
}
