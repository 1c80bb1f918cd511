package engine

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

func TestCloseGivesBackEveryUnspentUnit(t *testing.T) {
	for _, algorithm := range algorithms {
		f := newFixture(t)
		limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 100_000, Window: 24 * time.Hour})
		for i := range 100 {
			f.count(i, debit(limit, fmt.Sprint(i), 1))
		}
		if err := f.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if used := f.disk.used(limit, fmt.Sprint(i), f.clock.Now()); used != int64(i) {
				t.Errorf("%v: %d used of key %d on disk, want what was admitted", algorithm, used, i)
			}
		}
		if !f.store.closed.Load() {
			t.Error("the store was not closed")
		}
	}
}

func TestCloseEndsEveryGoroutine(t *testing.T) {
	bubble.Test(t, func(t *testing.T) { // fails if a goroutine is left
		d := newDisk()
		e := New(Options{
			Open: func(context.Context) (storage.Store, error) { return &hookedStore{disk: d}, nil },
			Name: testNames,
		})
		e.Decide(t.Context(), nil, []Debit{debit(sliding(t, 5, time.Hour), "a", 1)})
		time.Sleep(10 * time.Minute) // of virtual time: the janitor works
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Errorf("closed again: %v", err)
		}
	})
}

func TestDecisionsAfterCloseNeitherHangNorPanic(t *testing.T) {
	f := newFixture(t)
	limit := sliding(t, 10, time.Hour)
	f.count(3, debit(limit, "a", 1))
	f.Close(context.Background())
	if got := f.count(20, debit(limit, "a", 1)); got > 1 {
		t.Errorf("%d passed after the close with 3 of 10 used, want at most the 4 of a degraded limit less those", got)
	}
}

func TestRestartGoesOnCounting(t *testing.T) {
	first := newFixture(t)
	limit := sliding(t, 10, time.Hour)
	first.count(4, debit(limit, "a", 1))
	// No close: the first process is gone with its leases.
	second := startOn(t, first.disk, first.fake)
	if got := second.count(20, debit(limit, "a", 1)); got > 6 || got < 5 {
		t.Errorf("%d passed after a crash with 4 of 10 used, want 6, or 5 with one unit lost in a lease", got)
	}
}

// A former name of a key goes to the store with each of its claims, including returned leases.
func TestFormerNamesAreClaimedFor(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Name = func(id storage.LimitID, key string, _ time.Duration, _ int64) (Name, error) {
			return Name{Key: testName(id, key), Former: testName(id, "former "+key)}, nil
		}
	})
	gives := 0
	f.store.before = func(claims []storage.Claim) error {
		for _, c := range claims {
			if c.Former != testName(c.ID, "former a") {
				t.Errorf("claimed for %q, which was %q before", c.Key, c.Former)
			}
			if c.Min == 0 {
				gives++
			}
		}
		return nil
	}
	f.count(1, debit(sliding(t, 1000, time.Hour), "a", 1))
	if f.Close(t.Context()); gives != 1 {
		t.Errorf("given back %d times, want once", gives)
	}
}

func TestMemoryIsBoundedAndEvictionGivesBack(t *testing.T) {
	withoutRaces(t)
	const room, keys = 500, 2500
	f := newFixture(t, func(o *Options) { o.MaxKeys = room })
	limit := sliding(t, 100_000, 24*time.Hour)
	for i := range keys {
		f.ask(debit(limit, fmt.Sprint(i), 1))
	}
	if kept := f.Stats(t.Context()).Keys; kept > room+shards {
		t.Errorf("%d keys in memory, want about %d", kept, room)
	}
	f.Close(t.Context())
	for i := range keys {
		if used := f.disk.used(limit, fmt.Sprint(i), f.clock.Now()); used != 1 {
			t.Fatalf("%d used of key %d on disk, want 1", used, i)
		}
	}
}

func TestKeysNearTheirLimitOutliveFreshOnes(t *testing.T) {
	withoutRaces(t)
	f := newFixture(t, func(o *Options) { o.MaxKeys = 2500 })
	limit := sliding(t, 10, 24*time.Hour)
	const near = 125
	for i := range near {
		f.count(11, debit(limit, fmt.Sprint("near", i), 1))
	}
	for i := range 25_000 {
		f.ask(debit(limit, fmt.Sprint("fresh", i), 1))
	}
	kept := 0
	for i := range near {
		if f.table.find(limit.ID, fmt.Append(nil, "near", i)).exists() {
			kept++
		}
	}
	if kept < near*9/10 {
		t.Errorf("%d of %d keys at their limit are still in memory after a flood of fresh ones", kept, near)
	}
}

func TestIdleKeysAreForgotten(t *testing.T) {
	f := newFixture(t)
	limit := sliding(t, 100, time.Minute)
	for i := range 5000 {
		f.ask(debit(limit, fmt.Sprint(i), 1))
	}
	f.janitor.clean() // they were in use a moment ago
	f.count(5, debit(limit, "busy", 1))
	f.fake.advance(2 * time.Minute)
	f.janitor.clean()
	if keys := f.Stats(t.Context()).Keys; keys != 1 {
		t.Errorf("%d keys in memory after an idle round, want the busy one", keys)
	}
	if !f.table.find(limit.ID, []byte("busy")).exists() {
		t.Error("the busy key was forgotten")
	}
}

// Blocked and banned clients are refused from memory until the end, however rarely they send
// requests.
func TestBlockedAndBannedAreNotForgotten(t *testing.T) {
	f, scaling := newFixture(t), newScaling(t, 10, time.Hour, 0)
	scaling.Ban = reputation.Ban{After: 1, Within: time.Hour, For: time.Hour}
	limit := sliding(t, 10, time.Hour)
	f.count(11, debit(limit, "blocked", 1))
	f.passing(11, "banned", scaling)
	f.score("banned", 1)
	calls := f.store.calls.Load()
	for range 5 {
		f.fake.advance(10 * time.Minute)
		f.janitor.clean()
	}
	if d := f.ask(debit(limit, "blocked", 1)); d.Reason != Blocked {
		t.Errorf("after 50 minutes: %+v, want blocked", d)
	}
	if d := f.from("banned", scaling); d.Reason != Banned || d.Waited != 0 {
		t.Errorf("after 50 minutes: %+v, want banned, without the store", d)
	}
	f.fake.advance(11 * time.Minute)
	f.janitor.clean()
	f.janitor.clean()
	if keys := f.Stats(t.Context()).Keys; keys != 0 {
		t.Errorf("%d keys in memory after the end", keys)
	}
	if now := f.store.calls.Load(); now != calls {
		t.Errorf("the store was called %d times", now-calls)
	}
}

// Debts are charged in the end, even if no request comes for their key.
func TestDebtsAreNotForgotten(t *testing.T) {
	f := newFixture(t)
	limit := sliding(t, 10, 24*time.Hour)
	f.count(1, debit(limit, "a", 1))
	c, now := f.table.find(limit.ID, []byte("a")), f.clock.Now()
	c.Lock() // a request that waited for too long
	c.addDebtLocked(limit, limiter.Charge{At: limit.Slot(now), Units: 3}, now)
	c.Unlock()
	for range 5 {
		f.fake.advance(time.Minute)
		f.janitor.clean()
	}
	f.Close(t.Context())
	if used := f.disk.used(limit, "a", f.clock.Now()); used != 4 {
		t.Errorf("%d charged, want the 4 admitted", used)
	}
}

func TestHeapPerKey(t *testing.T) {
	withoutRaces(t)
	const keys = 20_000
	limit := sliding(t, 100, time.Hour)
	f := newFixture(t)
	before := heap()
	for i := range keys {
		f.ask(Debit{Limit: limit, Key: []byte{'i', 32, 10, byte(i >> 16), byte(i >> 8), byte(i)}, Cost: 1})
	}
	// The state of the memory store is not the engine's.
	f.disk.lose()
	f.store.reopen()
	perKey := (heap() - before) / keys
	t.Logf("%d bytes per key", perKey)
	if perKey > 200 {
		t.Errorf("%d bytes of heap per key, want at most 200", perKey)
	}
	runtime.KeepAlive(f)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The leases of idle keys are given back in small batches, so that no claim waits behind all of
// them. Expired units are not given back at all.
func TestIdleKeysGiveBackInTurn(t *testing.T) {
	for window, given := range map[time.Duration]int{24 * time.Hour: 5000, time.Minute: 0} {
		f := newFixture(t)
		largest, gives := 0, 0
		f.store.before = func(claims []storage.Claim) error {
			largest = max(largest, len(claims))
			for _, c := range claims {
				if c.Return.Units > 0 {
					gives++
				}
			}
			return nil
		}
		limit := sliding(t, 1000, window)
		for i := range 5000 {
			f.ask(debit(limit, fmt.Sprint(i), 1))
		}
		f.fake.advance(2 * time.Hour)
		f.janitor.clean()
		f.janitor.clean()
		f.Close(context.Background())
		if largest > 2*flushSize || gives != given {
			t.Errorf("window of %v: %d leases given back, want %d; %d in one batch", window, gives, given, largest)
		}
	}
}

func TestHeadroomStaysAtItsMost(t *testing.T) {
	limit := sliding(t, 1<<30, time.Hour)
	now := newFakeClock().wall.Load()
	c, lease := new(body), limiter.Lease{At: limit.Slot(now)}
	for range 40 {
		before := c.headroom.units
		if c.headroom.adapt(limit, &lease, now, false); c.headroom.units < before {
			t.Fatalf("headroom falls from %d to %d while the key uses it up", before, c.headroom.units)
		}
	}
	if c.headroom.units != maxHeadroom {
		t.Errorf("headroom %d, want %d", c.headroom.units, maxHeadroom)
	}
}
