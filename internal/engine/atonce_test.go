package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

// atOnceFixture is an engine that has a store in memory to itself.
func atOnceFixture(t *testing.T, change ...func(*Options)) (*fixture, *immediateStore) {
	t.Helper()
	var store *immediateStore
	f := newFixture(t, append(change, func(o *Options) {
		open := o.Open
		o.Open = func(ctx context.Context) (storage.Store, error) {
			opened, err := open(ctx)
			if store == nil {
				store = &immediateStore{hookedStore: opened.(*hookedStore), t: t, atOnce: func() error { return nil }}
			}
			return store, err
		}
		o.NameAtOnce = func(id storage.LimitID, key string, remembered time.Duration, now int64) (Name, bool) {
			name, err := testNames(id, key, remembered, now)
			return name, err == nil
		}
	})...)
	<-f.Ready()
	return f, store
}

// While no other process uses the store, requests wait for it only if a limit is used up, and then
// exactly the limit is admitted.
func TestClaimsAtOnceWaitForNothing(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			f, store := atOnceFixture(t)
			limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 20, Window: time.Hour})
			if admitted := f.count(20, debit(limit, "a", 1)); admitted != 20 {
				t.Fatalf("%d admitted, want 20", admitted)
			}
			if calls := store.calls.Load(); calls != 0 {
				t.Errorf("%d batches for a new key, want none", calls)
			}
			if d := f.ask(debit(limit, "a", 1)); d.Allowed || d.Reason != OverLimit || store.calls.Load() == 0 {
				t.Errorf("one more: %+v after %d batches, want it refused by the store", d, store.calls.Load())
			}
			if used := f.disk.used(limit, "a", f.clock.Now()); used != 20 {
				t.Errorf("%d charged, want 20", used)
			}
			if s := f.Stats(t.Context()); s.AtOnce == 0 || s.Claims < s.AtOnce {
				t.Errorf("stats count %d claims at once of %d", s.AtOnce, s.Claims)
			}
		})
	}
}

// A forgotten key with units in use is asked for at the store once, and then knows all of its usage.
func TestForgottenKeysAreAskedForOnce(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			f, store := atOnceFixture(t, func(o *Options) { o.MaxKeys = 100 })
			limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 20, Window: time.Hour})
			f.ask(debit(limit, "a", 1))
			for n := range 2000 {
				f.ask(debit(limit, fmt.Sprint(n), 15)) // more than a, which is forgotten first then
			}
			if store.calls.Load() != 0 {
				t.Fatalf("%d batches for new keys", store.calls.Load())
			}
			if d := f.ask(debit(limit, "a", 18)); !d.Allowed || store.calls.Load() != 1 {
				t.Errorf("18 of the rest: %+v after %d batches, want it admitted after one", d, store.calls.Load())
			}
			if d := f.ask(debit(limit, "a", 1)); !d.Allowed || store.calls.Load() != 1 {
				t.Errorf("the rest: %+v after %d batches, want it admitted at once", d, store.calls.Load())
			}
			if d := f.ask(debit(limit, "a", 1)); d.Allowed || d.Reason != OverLimit {
				t.Errorf("one more: %+v, want it refused", d)
			}
		})
	}
}

// A cell doesn't know the charges of a batch after the answer to a claim before them: until they are
// answered, it claims nothing at once, and isn't forgotten.
func TestClaimsAtOnceWaitForChargesOfTheirBatch(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			f, _ := atOnceFixture(t)
			limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 1000, Window: time.Hour})
			one := debit(limit, "a", 1)
			f.ask(one)
			c, now := f.table.find(limit.ID, []byte("a")), f.clock.Now()
			charge := limiter.Charge{Units: 1}
			if limit.CountsSlots() {
				charge.At = limit.Slot(now)
			}
			b := &batch{done: make(chan struct{}), now: now}
			c.Lock()
			b.claimLocked(c, &one, now)
			b.addChargeLocked(c, limit, charge)
			c.Unlock()
			if err := f.committer.writer.claim(&part{b, b.entries, nil}); err != nil {
				t.Fatal(err)
			}
			f.committer.leases.deliver(b.entries[0], now)
			at, _ := f.committer.leases.atOnce()
			c.Lock()
			if more := debit(limit, "a", c.lease.units+1); at.claimLocked(c, &more) || at.giveBackLocked(c) {
				t.Error("the cell claims or gives back at once")
			}
			c.Unlock()
			for range 3 {
				f.table.sweep(now, func(<-chan struct{}) {}, func(int) {})
			}
			if !f.table.find(limit.ID, []byte("a")).exists() {
				t.Error("the cell is forgotten")
			}
			f.committer.leases.deliver(b.entries[1], now)
			f.count(100, one)
			f.Close(t.Context())
			if used := f.disk.used(limit, "a", now); used != 102 {
				t.Errorf("%d charged, want 102", used)
			}
		})
	}
}

// Leases of forgotten keys are given back without the queue: claims that need the queue don't wait
// behind thousands of keys.
func TestKeysAreForgottenWithoutTheQueue(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			f, store := atOnceFixture(t)
			limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 1000, Window: time.Hour})
			f.count(2, debit(limit, "a", 1))
			c := f.table.find(limit.ID, []byte("a"))
			c.Lock()
			held := c.leaseLocked().Units
			c.Unlock()
			if held == 0 {
				t.Fatal("nothing is held of the key")
			}
			for range 2 {
				f.table.sweep(f.clock.Now(), func(<-chan struct{}) { t.Error("waits for a batch") }, func(int) {})
			}
			if f.table.find(limit.ID, []byte("a")).exists() || store.calls.Load() > 0 {
				t.Errorf("not forgotten, or in %d batches", store.calls.Load())
			}
			if used := f.disk.used(limit, "a", f.clock.Now()); used > 2 {
				t.Errorf("%d are charged, want the 2 that are spent", used)
			}
		})
	}
}

// Units charged by others meanwhile count.
func TestClaimsAtOnceEndWhereOthersCharge(t *testing.T) {
	f, store := atOnceFixture(t)
	limit := sliding(t, 10, time.Hour)
	if admitted := f.count(3, debit(limit, "a", 1)); admitted != 3 || store.calls.Load() > 0 {
		t.Fatalf("%d admitted in %d batches, want 3 in none", admitted, store.calls.Load())
	}
	f.disk.claim(limit, "a", limiter.Claim{Now: f.clock.Now(), Min: 6, Want: 6})
	if admitted := f.count(10, debit(limit, "a", 1)); admitted != 1 || store.calls.Load() == 0 {
		t.Errorf("%d admitted in %d batches, want 1 and at least one batch", admitted, store.calls.Load())
	}
}

// A request that needs units of several keys takes all of them at once, or none.
func TestClaimsAtOnceAreAllOrNone(t *testing.T) {
	f, _ := atOnceFixture(t)
	wide, narrow := sliding(t, 10, time.Hour), sliding(t, 2, time.Hour)
	if admitted := f.count(5, debit(wide, "a", 1), debit(narrow, "b", 1)); admitted != 2 {
		t.Fatalf("%d admitted, want 2", admitted)
	}
	if admitted := f.count(20, debit(wide, "a", 1)); admitted != 8 {
		t.Errorf("%d admitted by the wider limit alone, want the 8 that are left", admitted)
	}
}

// diskFixture is an engine that has a store on a disk to itself. atOnce is called by each claim at once.
func diskFixture(t *testing.T, d *disk, atOnce func() error, change ...func(*Options)) *fixture {
	t.Helper()
	f := startOn(t, d, newFakeClock(), append(change, func(o *Options) {
		o.Open = func(context.Context) (storage.Store, error) {
			return &immediateStore{hookedStore: &hookedStore{disk: d}, t: t, atOnce: atOnce, onDisk: true}, nil
		}
		o.NameAtOnce = func(id storage.LimitID, key string, remembered time.Duration, now int64) (Name, bool) {
			name, err := testNames(id, key, remembered, now)
			return name, err == nil
		}
	})...)
	<-f.Ready()
	return f
}

// A disk is asked by the committer, and exactly the limit is admitted, most of it at once.
func TestClaimsAtOnceOnADisk(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			d := newDisk()
			f := diskFixture(t, d, func() error { return nil })
			limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 20, Window: time.Hour})
			if admitted := f.count(30, debit(limit, "a", 1)); admitted != 20 {
				t.Errorf("%d admitted, want 20", admitted)
			}
			if s := f.Stats(t.Context()); s.AtOnce == 0 || s.Claims-s.AtOnce > 2 {
				t.Errorf("%d of %d claims were at once, want all but the last", s.AtOnce, s.Claims)
			}
			if used := d.used(limit, "a", f.clock.Now()); used != 20 {
				t.Errorf("%d charged, want 20", used)
			}
		})
	}
}

// While a disk hangs, requests wait for it no longer than for any store, and no lock is held: also those of the key whose
// claim hangs are decided. What the disk takes late counts once.
func TestDiskThatHangsHoldsNobody(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			thaw, d := make(chan struct{}), newDisk()
			f := diskFixture(t, d, func() error { <-thaw; return nil }, func(o *Options) { o.StoreTimeout = 20 * time.Millisecond })
			limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 1000, Window: 1000 * time.Hour})
			for range 3 {
				if d := f.ask(debit(limit, "a", 1)); !d.Allowed || !d.Degraded {
					t.Fatalf("got %+v, want it admitted by memory", d)
				}
			}
			close(thaw)
			admitted := 3 + f.askUntilInUse(debit(limit, "a", 1))
			f.Close(t.Context())
			if used := d.used(limit, "a", f.clock.Now()); used != int64(admitted) {
				t.Errorf("%d are charged, want the %d that were admitted", used, admitted)
			}
		})
	}
}

// Units that came back while others were given back are not charged again.
func TestUnitsThatComeBackDuringAReturnAreFree(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			d := newDisk()
			var during func()
			f := diskFixture(t, d, func() error {
				if then := during; then != nil {
					during = nil
					then()
				}
				return nil
			})
			limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 5, Window: 24 * time.Hour})
			held := f.hold(3, limit, "a")
			held[0].Settle(false) // into the lease
			c := f.table.find(limit.ID, []byte("a"))
			during = func() { held[1].Settle(false) } // while the lease is given back
			c.Lock()
			b := f.committer.leases.giveBackLocked(c)
			c.Unlock()
			<-b.done
			held[2].Settle(false)
			for _, p := range f.hold(5, limit, "a") { // all
				p.Settle(false)
			}
		})
	}
}

// A client whose record memory was made to forget within a period is read again, and waits for that alone.
func TestForgottenClientsAreReadAgainInAPeriod(t *testing.T) {
	for _, forget := range []struct {
		name string
		do   func(f *fixture) error
	}{
		{"reset", func(f *fixture) error { return f.Reset(t.Context(), []Reset{{Key: "a"}}) }},
		{"lifted", func(f *fixture) error { return f.Reset(t.Context(), []Reset{{Key: "a", Lifts: time.Hour}}) }},
		{"of a parent", func(f *fixture) error { return f.Reset(t.Context(), []Reset{{Key: "net"}}) }},
		{"all", func(f *fixture) error {
			return f.committer.queue.run(t.Context(), func() error { f.committer.eraser.forgetAll(); return nil })
		}},
	} {
		t.Run(forget.name, func(t *testing.T) {
			disk := newDisk()
			f := diskFixture(t, disk, func() error { return nil }, func(o *Options) { o.StoreTimeout = time.Second })
			scaling := newScaling(t, 1000, time.Hour, 5)
			ask := func() Decision {
				client := &Client{Key: []byte("a"), Parent: &Client{Key: []byte("net")}}
				return f.Decide(t.Context(), client, []Debit{{Limit: scaling.Levels[0], Key: client.Key, Cost: 1, Client: client, Scaling: scaling}})
			}
			for range 3 {
				if d := ask(); !d.Allowed || d.Degraded {
					t.Fatalf("before: %+v", d)
				}
			}
			if err := forget.do(f); err != nil {
				t.Fatal(err)
			}
			calls := disk.asked.Load()
			if d := ask(); !d.Allowed || d.Degraded {
				t.Errorf("afterwards: %+v, want it admitted as before", d)
			}
			if got := disk.asked.Load() - calls; got != 1 {
				t.Errorf("the store was asked %d times, want once", got)
			}
		})
	}
}

// A client isn't read again in the period in which it was read. In the batch that finds that the period is over, it is.
func TestClientsAreReadOnceInAPeriod(t *testing.T) {
	d := newDisk()
	var f *fixture
	var bans atomic.Bool // another process bans the client
	f = diskFixture(t, d, func() error {
		if !bans.Load() {
			return nil
		}
		d.call(f.clock.Now(), func(raw storage.Store, term *storage.Term) error {
			ban := reputation.Offense{Violation: reputation.Violation{At: f.clock.Now(), Reason: reputation.Trapped}, Ban: reputation.Ban{After: 1, Within: time.Hour, For: time.Hour}}
			return raw.Punish(context.Background(), term, []storage.Offense{{Client: storage.Client{Key: testName(clientsID, "a")}, Offense: ban}}, make([]reputation.Record, 1))
		})
		return storage.ErrNotAtOnce
	})
	scaling := newScaling(t, 1000, time.Hour, 5)
	f.passing(3, "a", scaling)
	calls := d.asked.Load()
	if passed := f.passing(100, "a", scaling); passed != 100 || d.asked.Load() != calls {
		t.Fatalf("%d of 100 passed, after %d transactions; want 100 and none", passed, d.asked.Load()-calls)
	}
	bans.Store(true)
	defer bans.Store(false)
	other := newScaling(t, 1000, 2*time.Hour, 5) // a key without a lease
	if d := f.from("a", other); d.Reason != Banned {
		t.Errorf("got %+v, want the ban", d)
	}
}

// BenchmarkNewKeysAtOnce uses a new key each time.
func BenchmarkNewKeysAtOnce(b *testing.B) {
	limit, err := limiter.New(limiter.Params{Amount: 100, Window: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	e := New(Options{
		Open: memory.New().Opener(memory.Options{MaxSize: 4 << 30}),
		Name: testNames,
		NameAtOnce: func(id storage.LimitID, key string, _ time.Duration, _ int64) (Name, bool) {
			return Name{Key: testName(id, key)}, true
		},
	})
	defer e.Close(context.Background())
	<-e.Ready()
	l := &Limit{ID: 1, Rate: limit}
	b.ReportAllocs()
	b.ResetTimer()
	key := make([]byte, 8)
	for i := range b.N {
		key[0], key[1], key[2], key[3] = byte(i), byte(i>>8), byte(i>>16), byte(i>>24)
		if d := e.Decide(context.Background(), nil, []Debit{{Limit: l, Key: key, Cost: 1}}); !d.Allowed {
			b.Fatalf("%+v", d)
		}
	}
}
