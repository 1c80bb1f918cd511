package caddytest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/internal/testing/wrongclock"
)

// onRedis is a Caddyfile whose counts are on a Redis that several Caddys share.
func onRedis(zone string) string {
	return options(`
	rate_limit {
		store redis redis://caddy:{env.REDIS_PASSWORD}@{$REDIS}
		secret_file {$DIR}/secret
		store_timeout 2s
	}
	`+trusting) + site("rate_limit {\nzone z {\nper ip\n"+zone+"\n}\n}\nrespond hello")
}

const redisPassword = "not-for-logs"

// newRedis starts a Redis whose user caddy has a password.
func newRedis(t *testing.T) *testserver.RedisServer {
	t.Helper()
	return testserver.Redis(t, "--user", "caddy", "on", ">"+redisPassword, "~{tally}:*", "+@all")
}

// startFleet starts Caddys that share a Redis and have the same secret.
func startFleet(t *testing.T, redis *testserver.RedisServer, n int, config string) (fleet []*server) {
	t.Helper()
	for range n {
		s := newServer(t, config, "REDIS="+redis.Address(), "REDIS_PASSWORD="+redisPassword)
		s.writeSecret(strings.Repeat("one secret for all ", 3))
		fleet = append(fleet, s)
	}
	for _, s := range fleet {
		s.start()
	}
	t.Cleanup(func() {
		for _, s := range fleet {
			if strings.Contains(s.logs(), redisPassword) {
				t.Error("a log has the password of the Redis")
			}
		}
	})
	return fleet
}

func (s *server) writeSecret(text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "secret"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// Two Caddys count together. A kill of one, a kill of the Redis that starts again with nothing, and
// an outage let nobody have more.
func TestTwoCaddysShareARedis(t *testing.T) {
	t.Parallel()
	redis := newRedis(t)
	fleet := startFleet(t, redis, 2, onRedis("limit 3/1h"))
	for client := range 10 {
		passed := 0
		for i := range 8 {
			passed += fleet[(client+i)%2].passed(1, "/", from(client))
		}
		if passed != 3 {
			t.Errorf("%d requests of client %d passed on two machines, want 3", passed, client)
		}
	}
	for _, line := range []string{"caddy_rate_limit_store_machines ", "caddy_rate_limit_store_round_trip_seconds 0.", "caddy_rate_limit_store_lost_writes_total 0"} {
		if lines := fleet[0].mustMetrics(); !strings.Contains(lines, line) {
			t.Errorf("metrics are\n%s\nwant %s in them", lines, line)
		}
	}
	fleet[0].kill()
	fleet[0].start()
	fleet[0].wantPassed(0, 2, "/", from(1))
	if h := fleet[0].health(); h.Store != "redis" || h.Path != redis.Address() || h.Degraded {
		t.Errorf("health is %+v", h)
	}

	redis.Kill()
	for _, s := range fleet {
		s.awaitDegraded()
		s.wantPassed(0, 2, "/", from(1)) // as memory knows
	}
	redis.Run(t)
	for _, s := range fleet { // all of them: each one charges what it knows
		waitFor(t, "the Redis to be in use again", func() bool { return !s.health().Degraded })
	}
	for _, s := range fleet {
		for client := range 10 {
			s.wantPassed(0, 1, "/", from(client))
		}
	}
	if lines := fleet[1].logLines("the store can't be used; reduced limits are kept in memory until it can"); len(lines) == 0 ||
		lines[0]["store"] != "redis "+redis.Address() {
		t.Errorf("the outage is logged as %v", lines)
	}
}

// A Redis that isn't there when a Caddy starts, and whose password is another one at first, is used
// once that is mended. Requests are answered all the time.
func TestRedisThatComesLate(t *testing.T) {
	t.Parallel()
	redis := newRedis(t)
	redis.Kill()
	s := startFleet(t, redis, 1, onRedis("limit 10/1h"))[0]
	s.wantPassed(1, 1, "/", from(1))
	if h := s.health(); !h.Degraded || strings.Contains(h.Reason, redisPassword) {
		t.Errorf("health is %+v", h)
	}
	redis.Run(t)
	waitFor(t, "the Redis to be in use", func() bool { return !s.health().Degraded })
	redis.Must(t, "ACL", "SETUSER", "caddy", "resetpass", ">another")
	redis.Must(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	waitFor(t, "the wrong password to be said", func() bool {
		s.passed(1, "/", from(2))
		return strings.Contains(s.health().Reason, "check user and password")
	})
	redis.Must(t, "ACL", "SETUSER", "caddy", "resetpass", ">"+redisPassword)
	waitFor(t, "the Redis to be in use again", func() bool { return !s.health().Degraded })
}

// Without any request the status shows that the server's clock is wrong, and that the server is away. Then explain
// shows the limit in force.
func TestStatusTellsOfTheServer(t *testing.T) {
	t.Parallel()
	clock := wrongclock.New(t)
	if clock == nil {
		t.Skip(wrongclock.Missing)
	}
	redis := newRedis(t)
	redis.Kill()
	redis.Env = clock.Env()
	redis.Run(t)
	s := startFleet(t, redis, 1, onRedis("limit 10/1h"))[0]
	s.wantPassed(1, 1, "/", from(1))
	if err := clock.Set(3 * time.Hour); err != nil {
		t.Fatal(err)
	}
	says := func(text string, args ...string) func() bool {
		return func() bool {
			out, _, _ := s.rateLimit(args...)
			return strings.Contains(out, text)
		}
	}
	waitFor(t, "the status to show the wrong clock", says("server is 3 hours ahead of this machine's", "status"))
	waitFor(t, "the metric to show it", func() bool {
		ahead, _ := strconv.ParseFloat(s.metric("caddy_rate_limit_store_server_clock_ahead_seconds"), 64)
		return ahead > 10_700 && ahead < 10_900
	})
	redis.Kill()
	waitFor(t, "the status to show that the server is away", says("The store redis can't be used", "status"))
	s.passed(1, "/", from(1))
	waitFor(t, "explain to show the limit in force", says("10/1h, at present 4, as the store can't be used", "explain", "192.0.2.1"))
	redis.Run(t)
	waitFor(t, "the Redis to be in use", func() bool { return !s.health().Degraded })
}

// A password that is changed on the server and in the file that a placeholder names is used by the next
// connection, without a restart.
func TestRedisPasswordIsReadAnew(t *testing.T) {
	t.Parallel()
	redis := newRedis(t)
	s := newServer(t, strings.Replace(onRedis("limit 10/1h"), "{env.REDIS_PASSWORD}", "{file.{$DIR}/password}", 1), "REDIS="+redis.Address())
	s.writeSecret(strings.Repeat("one secret for all ", 3))
	write := func(password string) {
		if err := os.WriteFile(filepath.Join(s.dir, "password"), []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(redisPassword)
	s.start()
	s.wantPassed(2, 2, "/", from(1))
	write("an@ther/one")
	redis.Must(t, "ACL", "SETUSER", "caddy", "resetpass", ">an@ther/one")
	redis.Must(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	before, n := redis.Must(t, "DBSIZE"), 2
	waitFor(t, "a count on the Redis with the new password", func() bool {
		n++
		s.passed(1, "/", from(n))
		return redis.Must(t, "DBSIZE") != before
	})
	s.wantPassed(8, 10, "/", from(1))
}

// A machine with another secret doesn't use the Redis, and says which file to copy. Without a
// secret file there is an error; a config that is only checked opens nothing.
func TestRedisWantsOneSecret(t *testing.T) {
	t.Parallel()
	redis := newRedis(t)
	startFleet(t, redis, 1, onRedis("limit 3/1h"))[0].wantCommand(t, 0, []string{"status"}, "0 bans and 0 allowances in the store")
	other := newServer(t, onRedis("limit 3/1h"), "REDIS="+redis.Address(), "REDIS_PASSWORD="+redisPassword)
	other.writeSecret(strings.Repeat("another secret ", 3))
	other.start()
	if h := other.health(); !h.Degraded || !strings.Contains(h.Reason, "copy theirs to this one") {
		t.Errorf("health is %+v", h)
	}
	other.wantCommand(t, 0, []string{"status"}, "Those in the store, for all machines, are not known.")

	bare := newServer(t, strings.Replace(onRedis("limit 3/1h"), "secret_file {$DIR}/secret", "", 1), "REDIS=127.0.0.1:1", "REDIS_PASSWORD="+redisPassword)
	out, err := bare.run("validate", "--config", bare.config)
	if err == nil || !strings.Contains(out, "write secret_file <path>") || strings.Contains(out, redisPassword) {
		t.Errorf("without a secret file: %v\n%s", err, out)
	}
	nowhere := newServer(t, onRedis("limit 3/1h"), "REDIS=127.0.0.1:1", "REDIS_PASSWORD="+redisPassword)
	if out, err := nowhere.run("validate", "--config", nowhere.config); err != nil {
		t.Errorf("a config of a Redis that isn't there: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(nowhere.dir, "secret")); err == nil {
		t.Error("a config that was only checked has made a secret")
	}
}

// What one Caddy learns of a client, the others know: a ban, and its end by a reset.
func TestBansOnAllMachines(t *testing.T) {
	t.Parallel()
	fleet := startFleet(t, newRedis(t), 2, options(`
	rate_limit {
		store redis redis://caddy:{env.REDIS_PASSWORD}@{$REDIS}
		secret_file {$DIR}/secret
		ban after 1 violations in 1h for 1h
	}
	`+trusting)+site("rate_limit {\nzone z {\nper client\nlimit 100/1m\n}\ntrap path /.env\n}\nrespond hello"))
	fleet[0].passed(1, "/", from(1))
	fleet[1].passed(1, "/", from(1))
	fleet[0].passed(1, "/.env", from(1))
	for i, s := range fleet {
		waitFor(t, fmt.Sprintf("machine %d to know the ban", i), func() bool { return s.passed(1, "/", from(1)) == 0 })
	}
}
