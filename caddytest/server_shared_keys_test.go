package caddytest

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
)

// keysOn is a Caddyfile whose API keys are in a store that several Caddys share.
func keysOn(store string) string {
	return options(`
	rate_limit {
		store `+store+`
		secret_file {$SECRET}
		store_timeout 2s
		tier free {
			limit 1000/1h
		}
		tier pro {
			limit 2000/1h
		}
		api_keys {
			store
		}
	}
	`+trusting) + site("rate_limit {\nzone z {\nper api_key\ntiers\n}\nzone ip {\nper ip\nlimit 100000/1h\n}\n}\nrespond hello")
}

// sharedStore is a store on a server, and how to kill the server and start it again.
type sharedStore struct {
	config      string
	env         []string
	kill, start func()
}

// A key that is made on one machine of a store is known on all, and one that is revoked on any ends
// on all: also after restarts, in an outage, and when the store comes back.
func TestRevokedKeysEndOnAllMachines(t *testing.T) {
	t.Run("redis", func(t *testing.T) {
		redis := newRedis(t)
		testSharedKeys(t, sharedStore{
			config: keysOn("redis redis://caddy:{env.REDIS_PASSWORD}@{$REDIS}"),
			env:    []string{"REDIS=" + redis.Address(), "REDIS_PASSWORD=" + redisPassword},
			kill:   redis.Kill,
			start:  func() { redis.Run(t) }, // without its data
		})
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
		testSharedKeys(t, sharedStore{
			config: keysOn("postgres {env.DSN}"), env: []string{"DSN=" + db.DSN(db.Port)}, kill: db.Kill,
			start: func() {
				if err := db.Start(); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}

// keysFleet are Caddys that share API keys.
type keysFleet struct {
	t        *testing.T
	machines []*server
}

// key makes a key on a machine and returns the header field that has it.
func (f keysFleet) key(machine int, name, tier string) string {
	f.t.Helper()
	out, errs, status := f.machines[machine].rateLimit("key", "new", name, tier, "--store")
	if status != 0 || !strings.Contains(errs, "the store, for all machines") {
		f.t.Fatalf("key new: %s%s", out, errs)
	}
	return "X-Api-Key: " + strings.TrimSpace(out)
}

// await waits until all machines answer a key with a status.
func (f keysFleet) await(status int, key, what string) {
	f.t.Helper()
	for _, s := range f.machines {
		waitFor(f.t, what, func() bool { return s.get("/", key).status == status })
	}
}

// want checks that all machines answer a key with a status at once.
func (f keysFleet) want(status int, key, when string) {
	f.t.Helper()
	for i, s := range f.machines {
		if got := s.get("/", key).status; got != status {
			f.t.Errorf("%s: machine %d answers with %d, want %d", when, i, got, status)
		}
	}
}

func testSharedKeys(t *testing.T, on sharedStore) {
	secret := filepath.Join(t.TempDir(), "tally.key")
	if err := os.WriteFile(secret, []byte(strings.Repeat("a secret of all machines ", 2)), 0o600); err != nil {
		t.Fatal(err)
	}
	f := keysFleet{t: t}
	for range 4 {
		f.machines = append(f.machines, startCaddy(t, on.config, append(on.env, "SECRET="+secret)...))
	}
	acme, other := f.key(0, "acme", "free"), f.key(1, "other", "free")
	f.await(http.StatusOK, acme, "a key to be known on all machines")
	f.await(http.StatusOK, other, "another key to be known on all machines")
	f.machines[2].wantCommand(t, 0, words("key list --store"), "acme", "other", "free")
	f.machines[3].wantCommand(t, 0, words("key tier other pro --store"), "Changed 1")
	f.machines[3].wantCommand(t, 1, words("key revoke nobody --store"), "no API key of nobody")

	f.machines[2].wantCommand(t, 0, words("key revoke acme --store"), "Revoked 1")
	f.machines[2].wantCommand(t, 0, words("audit"), "key new ", "key tier ", "key revoke ", "api-key:acme")
	f.await(http.StatusForbidden, acme, "a revoked key to end on all machines")
	f.want(http.StatusOK, other, "after another key was revoked")
	f.machines[1].kill()
	f.machines[1].start()
	f.want(http.StatusForbidden, acme, "a revoked key after a restart")
	f.want(http.StatusOK, other, "a key after a restart")
	f.testOutage(on, acme, other)
}

// testOutage kills the server of the store, and starts it again.
func (f keysFleet) testOutage(on sharedStore, revoked, known string) {
	on.kill()
	n := 0
	for _, s := range f.machines {
		waitFor(f.t, "an outage", func() bool {
			n++
			s.get("/", known, otherClient(n)) // needs the store
			return s.health().Degraded
		})
	}
	f.want(http.StatusForbidden, revoked, "a revoked key in an outage")
	f.want(http.StatusOK, known, "a key in an outage")
	f.machines[0].wantCommand(f.t, 1, words("key revoke other --store"), "nothing was changed")
	f.machines[3].kill()
	f.machines[3].launch()
	waitFor(f.t, "a machine to say that it doesn't know the keys", func() bool {
		a, err := f.machines[3].try(http.MethodGet, "/", known)
		return err == nil && a.status == http.StatusServiceUnavailable
	})
	on.start()
	for _, s := range f.machines {
		waitFor(f.t, "the store to be in use again", func() bool { return !s.health().Degraded })
	}
	f.await(http.StatusOK, known, "a key to be known when the store is back")
	f.want(http.StatusForbidden, revoked, "a revoked key when the store is back")
}
