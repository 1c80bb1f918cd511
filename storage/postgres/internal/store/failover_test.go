package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// TestFailover kills a primary whose standby lags, and promotes the standby. The DSN names both. The machines notice
// this and charge their known usage, which is all that was admitted in the lost time. So together they
// admit no more than the limit, not even when clients reconnect to the old primary.
func TestFailover(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped: it takes some ten seconds")
	}
	primary := ownServer(t)
	standby, err := testserver.Standby(primary)
	orSkip(t, standby, err)
	t.Cleanup(standby.Close)
	const amount, kept, lost = 1000, 300, 200
	params, err := limiter.New(limiter.Params{Amount: amount, Window: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	limit := &engine.Limit{ID: 1, Rate: params}
	open := placeOn(t, primary.DSN(primary.Port+",127.0.0.1:"+standby.Port)+"&target_session_attrs=read-write",
		newOptions()).Open
	engines := []*engine.Engine{newEngine(t, open), newEngine(t, open)}
	both := func(requests int) (admitted int) {
		return use(t, engines[0], limit, requests/2) + use(t, engines[1], limit, requests/2)
	}
	stats := func(e *engine.Engine) engine.Stats { return e.Stats(context.Background()) }
	var seen [2]int64 // lost writes that engines have noticed: one that is late may notice twice
	noticed := func() {
		t.Helper()
		for i, e := range engines {
			defer func() {
				if t.Failed() {
					t.Logf("engine %d: %+v, seen %d", i, stats(e), seen[i])
				}
			}()
			waitUntil(t, fmt.Sprintf("engine %d to notice lost writes, and to use the server again", i), func() bool {
				return stats(e).LostWrites > seen[i] && !stats(e).Degraded
			})
		}
		for i, e := range engines {
			seen[i] = stats(e).LostWrites
		}
	}
	admitted := both(kept)
	until(t, primary, "SELECT 1 / COUNT(*) FROM pg_stat_replication WHERE flush_lsn >= pg_current_wal_lsn()")
	exec(t, standby, "ALTER SYSTEM SET primary_conninfo = ''")
	exec(t, standby, "SELECT pg_reload_conf()")
	until(t, primary, "SELECT 1 / (1 - COUNT(*)) FROM pg_stat_replication")
	admitted += both(lost)
	for _, e := range engines { // what it admits may be charged since before
		use(t, e, &engine.Limit{ID: 2, Rate: params}, 1)
	}
	primary.Kill()
	exec(t, standby, "SELECT pg_promote()")
	noticed()
	if admitted += both(kept); admitted != kept+lost+kept {
		t.Errorf("%d of %d requests were admitted", admitted, kept+lost+kept)
	}
	if err := primary.Start(); err != nil {
		t.Fatal(err)
	}
	exec(t, standby, endSessions)
	noticed()
	for range amount {
		admitted += both(2)
	}
	if admitted > amount || admitted < amount*3/4 { // a part is lost with the leases of both
		t.Errorf("%d of %d were admitted", admitted, amount)
	}
}

func newEngine(t *testing.T, open storage.Opener) *engine.Engine {
	t.Helper()
	e := engine.New(engine.Options{Open: open, StoreTimeout: patience, Remote: true,
		Name: func(_ storage.LimitID, key string, _ time.Duration, _ int64) (name engine.Name, _ error) {
			copy(name.Key[:], key)
			return name, nil
		}})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = e.Close(ctx)
	})
	<-e.Ready()
	return e
}

// use makes a number of requests, and returns how many are admitted.
func use(t *testing.T, e *engine.Engine, limit *engine.Limit, requests int) (admitted int) {
	t.Helper()
	for range requests {
		d := e.Decide(context.Background(), nil, []engine.Debit{{Limit: limit, Key: []byte("everybody"), Cost: 1}})
		if d.Degraded {
			t.Fatal("a decision was made without the server")
		}
		if d.Allowed {
			admitted++
		}
	}
	return admitted
}

func waitUntil(t testing.TB, what string, reached func() bool) {
	t.Helper()
	for end := time.Now().Add(40 * time.Second); !reached(); { // engines try again less and less often
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// until runs a statement on a server until it succeeds.
func until(t testing.TB, s *testserver.Server, statement string) {
	t.Helper()
	waitUntil(t, statement, func() bool { return execOn(s.DSN(s.Port), statement) == nil })
}
