package caddytest

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
)

// rotating is a Caddyfile with a limit by address and one by a key that is no address.
func rotating(store string) string {
	return options(`
	rate_limit {
		store `+store+`
		secret_file {$DIR}/secret
		store_timeout 5s
	}
	`+trusting) + site("rate_limit {\nzone a {\nmatch path /address\nper ip\nlimit 20/1h\n}\nzone t {\nmatch path /tenant\nper key {http.request.header.Tenant}\nlimit 20/1h\n}\n}\nrespond hello")
}

// Machines that are restarted one after the other at each step of a rotation of their secret count
// together all the time, and don't need the former line at the end.
func TestSecretIsRotatedWithRollingRestarts(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		redis := newRedis(t)
		testRotation(t, rotating("redis redis://caddy:{env.REDIS_PASSWORD}@"+redis.Address()), "REDIS_PASSWORD="+redisPassword)
	})
	t.Run("postgres", func(t *testing.T) {
		db, err := testserver.Postgres()
		if errors.Is(err, testserver.ErrMissing) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		testRotation(t, rotating("postgres {env.DSN}"), "DSN="+db.DSN(db.Port))
	})
}

func testRotation(t *testing.T, config string, env ...string) {
	former, latter := strings.Repeat("former ", 6)+"\n", strings.Repeat("latter ", 6)+"\n"
	var fleet []*server
	for range 2 {
		s := newServer(t, config, env...)
		s.writeSecret(former)
		s.start()
		fleet = append(fleet, s)
	}
	passed := map[string]int{}
	send := func() {
		for _, s := range fleet {
			passed["/address"] += s.passed(2, "/address", "X-Forwarded-For: 192.0.2.1")
			passed["/tenant"] += s.passed(2, "/tenant", "Tenant: acme")
		}
	}
	send()
	for _, secret := range []string{former + latter, latter + former, latter} {
		for _, s := range fleet {
			s.writeSecret(secret)
			s.stop()
			s.start()
			s.awaitRecovery()
			send()
		}
	}
	for path, n := range passed { // two machines, two requests each, at seven moments
		if n != 20 {
			t.Errorf("%d of 28 requests to %s passed, want 20", n, path)
		}
	}
	for _, s := range fleet {
		if h := s.health(); h.Degraded || h.Network == nil || h.Network.LaterLines == nil || *h.Network.LaterLines != 0 {
			t.Errorf("health is %+v", h)
		}
	}
}

// Machines without a request say as well whether the former line is needed, and that it isn't known
// while the store is away.
func TestIdleMachinesShowTheFormerLine(t *testing.T) {
	t.Parallel()
	redis := newRedis(t)
	config := rotating("redis redis://caddy:{env.REDIS_PASSWORD}@" + redis.Address())
	former, latter := strings.Repeat("former ", 6)+"\n", strings.Repeat("latter ", 6)+"\n"
	var fleet []*server
	for range 2 {
		s := newServer(t, config, "REDIS_PASSWORD="+redisPassword)
		s.writeSecret(former)
		s.start()
		fleet = append(fleet, s)
	}
	const none = "No value in the store needs a line of secret_file after the first."
	for _, s := range fleet {
		s.wantCommand(t, 0, []string{"status"}, "No request has called it yet.", none)
	}
	fleet[0].wantCommand(t, 0, []string{"ban", "203.0.113.7"})
	for _, secret := range []string{former + latter, latter + former} {
		for _, s := range fleet {
			s.writeSecret(secret)
			s.stop()
			s.start()
		}
	}
	for _, s := range fleet {
		s.wantCommand(t, 0, []string{"status"}, "1 value in the store still need a line of secret_file after the first. Don't remove that line yet.")
		s.writeSecret(latter)
		s.stop()
		s.start()
		s.wantCommand(t, 0, []string{"status"}, "1 value in the store still need a line of secret_file after the first.", "If you have, add it again")
	}
	redis.Close()
	waitFor(t, "the status to know nothing", func() bool {
		out, _, _ := fleet[0].rateLimit("status")
		return strings.Contains(out, "is not known. Don't remove a line yet.")
	})
}

// Values that a later line opens are counted, and a secret file that was replaced by one that doesn't
// fit is noticed at the next reload, not at the next start.
func TestSecretFileThatChanges(t *testing.T) {
	t.Parallel()
	redis := newRedis(t)
	config := rotating("redis redis://caddy:{env.REDIS_PASSWORD}@" + redis.Address())
	former, latter := strings.Repeat("former ", 6)+"\n", strings.Repeat("latter ", 6)+"\n"
	one, two := newServer(t, config, "REDIS_PASSWORD="+redisPassword), newServer(t, config, "REDIS_PASSWORD="+redisPassword)
	one.writeSecret(latter + former)
	one.start()
	two.writeSecret(former + latter)
	two.start()
	one.wantPassed(1, 1, "/tenant", "Tenant: other")
	if h := one.health(); h.Network == nil || h.Network.LaterLines == nil || *h.Network.LaterLines == 0 {
		t.Errorf("the other machine has sealed values under the former line, and health is %+v", h.Network)
	}
	one.wantCommand(t, 0, []string{"status"}, "still need a line of secret_file after the first")

	for _, changed := range []struct{ secret, message string }{
		{former + latter, "secret_file has changed; restart Caddy to use it"},
		{latter, "secret_file has changed, and does not fit the store: after its next start this machine could not use the store. Add the former line behind the new one"},
	} {
		one.writeSecret(changed.secret)
		one.mustReload(config)
		waitFor(t, changed.message, func() bool { return len(one.logLines(changed.message)) == 1 })
	}
	one.wantPassed(1, 1, "/tenant", "Tenant: acme")
}

// The same three steps on one machine keep invoices, quotas, ids of charges and names for logs, whether Caddy is stopped or
// killed at each, and with two processes that are restarted one after the other.
func TestSecretIsRotatedOnOneMachine(t *testing.T) {
	t.Parallel()
	former, latter := strings.Repeat("former ", 6)+"\n", strings.Repeat("latter ", 6)+"\n"
	for _, c := range []struct {
		name  string
		end   func(*server)
		steps []string
	}{
		{"three steps", (*server).stop, []string{former, former + latter, latter + former, latter}},
		{"two steps", (*server).stop, []string{former, latter + former, latter}},
		{"killed", (*server).kill, []string{former, former + latter, latter + former, latter + former, latter}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := options("rate_limit {\nstore sqlite {$SHARED}/tally.db\nsecret_file {$SHARED}/secret\nstore_timeout 5s\ntier free {\nlimit 100000/1h\n}\napi_keys {\nmissing deny\nfile {$SHARED}/api_keys\n}\n}\n") +
				site("rate_limit {\nzone api {\nper api_key\nlimit 60/month fixed name monthly\n}\n}\nrespond {http.rate_limit.client}")
			folder := t.TempDir()
			key, err := apikeys.New(filepath.Join(folder, "api_keys"), apikeys.Holder{Name: "acme", Tier: "free"})
			if err != nil {
				t.Fatal(err)
			}
			fleet := []*server{newServer(t, config, "SHARED="+folder), newServer(t, config, "SHARED="+folder)}
			passed, name := 0, ""
			for step, secret := range c.steps {
				if err := os.WriteFile(filepath.Join(folder, "secret"), []byte(secret), 0o600); err != nil {
					t.Fatal(err)
				}
				for _, s := range fleet {
					if step > 0 {
						c.end(s)
					}
					s.start()
					for range 4 {
						a := s.get("/", "X-Api-Key: "+key)
						if a.status == http.StatusOK {
							passed++
						}
						if name == "" {
							name = a.body
						}
						if a.status == http.StatusOK && (a.body != name || name == "") {
							t.Errorf("step %d: the client is named %q, and was %q", step, a.body, name)
						}
					}
					status, charged, text := s.charge(t, "api", `{"client": "api-key:acme", "units": 3, "id": "mail-17"}`)
					if isFirst := step == 0 && s == fleet[0]; status != http.StatusOK || !charged.Allowed || charged.Repeats == isFirst {
						t.Errorf("step %d: the charge is answered by %d, %s", step, status, text)
					}
					passed += int(charged.Units)
					if h := s.health(); h.Degraded || h.Names != nil {
						t.Errorf("step %d: health is %+v, %+v", step, h, h.Names)
					}
				}
			}
			for range 60 {
				for _, s := range fleet {
					passed += s.passed(1, "/", "X-Api-Key: "+key)
				}
			}
			if passed > 60 || passed < 45 || c.name != "killed" && passed != 60 {
				t.Errorf("%d requests passed of a quota of 60", passed)
			}
			if c.name == "killed" {
				return // the use of the last minute is lost with a process
			}
			for _, s := range fleet {
				s.stop()
			}
			fleet[0].start()
			if got := fleet[0].usageOf(t, "api-key:acme")["monthly"]; got.Units != int64(passed) || !got.Exact {
				t.Errorf("the invoice has %+v, want %d units", got, passed)
			}
		})
	}
}
