package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

// counting decides a request with a pending debit.
func (f *fixture) counting(how Counting, limit *Limit, key string, cost int64) (*Pending, Decision) {
	debits := []Debit{{Limit: limit, Key: []byte(key), Cost: cost, Counting: how}}
	d := f.Decide(context.Background(), nil, debits)
	return debits[0].Pending, d
}

// hold decides n requests that hold a unit each.
func (f *fixture) hold(n int, limit *Limit, key string) (held []*Pending) {
	f.t.Helper()
	for i := range n {
		p, d := f.counting(Held, limit, key, 1)
		if !d.Allowed || p == nil {
			f.t.Fatalf("request %d: %+v, want it allowed", i, d)
		}
		held = append(held, p)
	}
	return held
}

// onStores runs a test with each algorithm, with and without claims at once.
func onStores(t *testing.T, params limiter.Params, test func(t *testing.T, f *fixture, limit *Limit)) {
	for _, algorithm := range algorithms {
		for _, atOnce := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/at_once=%v", algorithm, atOnce), func(t *testing.T) {
				f := newFixture
				if atOnce {
					f = func(t *testing.T, change ...func(*Options)) *fixture {
						made, _ := atOnceFixture(t, change...)
						return made
					}
				}
				p := params
				p.Algorithm = algorithm
				test(t, f(t), newLimit(t, p))
			})
		}
	}
}

// Held units are charged: other requests are refused meanwhile, and admitted again as soon as one
// of the holding requests turns out not to count.
func TestHeldUnitsComeBack(t *testing.T) {
	onStores(t, limiter.Params{Amount: 5, Window: time.Hour}, func(t *testing.T, f *fixture, limit *Limit) {
		held := f.hold(5, limit, "a")
		for range 3 {
			if d := f.ask(debit(limit, "a", 1)); d.Allowed || d.Retry <= 0 {
				t.Fatalf("while all is held: %+v, want it refused for some time", d)
			}
		}
		held[0].Settle(false)
		held[0].Settle(false)
		held[0].Settle(true)
		if got := f.count(3, debit(limit, "a", 1)); got != 1 {
			t.Errorf("%d passed after one unit came back, want 1", got)
		}
		held[1].Settle(true)
		if got := f.count(3, debit(limit, "a", 1)); got != 0 {
			t.Errorf("%d passed after one request counts, want none", got)
		}
		for _, p := range held[2:] {
			p.Settle(false)
		}
		if got := f.count(9, debit(limit, "a", 1)); got != 3 {
			t.Errorf("%d passed after three units came back, want 3", got)
		}
		if err := f.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if used := f.disk.used(limit, "a", f.clock.Now()); used != 5 {
			t.Errorf("%d are charged in the end, want 5", used)
		}
	})
}

// Of any number of concurrent requests, exactly the limit is admitted until they are settled, and
// requests that don't count use up nothing.
func TestHeldRequestsAtOnce(t *testing.T) {
	onStores(t, limiter.Params{Amount: 5, Window: time.Hour}, func(t *testing.T, f *fixture, limit *Limit) {
		for _, counts := range []bool{false, true} {
			var all sync.WaitGroup
			allowed := make(chan *Pending, 200)
			for range 200 {
				all.Go(func() {
					if p, d := f.counting(Held, limit, "a", 1); d.Allowed {
						allowed <- p
					}
				})
			}
			all.Wait()
			close(allowed)
			if len(allowed) != 5 {
				t.Errorf("%d of 200 passed, want 5", len(allowed))
			}
			for p := range allowed {
				p.Settle(counts)
			}
		}
		if _, d := f.counting(Held, limit, "a", 1); d.Allowed {
			t.Error("one more passed, and five have counted")
		}
	})
}

// A unit that comes back when the key's lease is of a later slot is given back to its own slot.
func TestHeldUnitsComeBackToTheirSlot(t *testing.T) {
	f := newFixture(t)
	limit := sliding(t, 6, time.Minute)
	held := f.hold(3, limit, "a")
	f.fake.advance(5 * time.Second)
	later := f.hold(2, limit, "a")
	for _, p := range held {
		p.Settle(false)
	}
	if got := f.count(9, debit(limit, "a", 1)); got != 4 {
		t.Errorf("%d passed beside two that are held, want 4", got)
	}
	later[0].Settle(true)
	later[1].Settle(false)
	if got := f.count(9, debit(limit, "a", 1)); got != 1 {
		t.Errorf("%d passed, want 1", got)
	}
	f.fake.advance(2 * time.Minute) // nothing counts any more
	if got := f.count(9, debit(limit, "a", 1)); got != 6 {
		t.Errorf("%d passed, want 6", got)
	}
}

// Units held for longer than their slot counts are not given back.
func TestHeldUnitsExpire(t *testing.T) {
	onStores(t, limiter.Params{Amount: 3, Window: time.Minute}, func(t *testing.T, f *fixture, limit *Limit) {
		held := f.hold(3, limit, "a")
		f.fake.advance(10 * time.Minute)
		if got := f.count(9, debit(limit, "a", 1)); got != 3 {
			t.Fatalf("%d passed after the window, want 3", got)
		}
		for _, p := range held {
			p.Settle(false)
		}
		if got := f.count(9, debit(limit, "a", 1)); got != 0 {
			t.Errorf("%d passed after old units came back, want none", got)
		}
	})
}

// Units held before a reset or another time are not given back afterwards: others may have used
// them since.
func TestHeldUnitsAreForgotten(t *testing.T) {
	for _, processes := range []int{1, 2} { // the last one resets
		for _, algorithm := range algorithms {
			t.Run(fmt.Sprintf("%v/processes=%d", algorithm, processes), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					db, engines := memory.New(), []*Engine(nil)
					for range processes {
						engines = append(engines, onDatabase(t, db))
					}
					limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 3, Window: 300 * 24 * time.Hour})
					f := &fixture{t: t, Engine: engines[0]}
					held := f.hold(2, limit, "a")
					if err := engines[processes-1].Reset(t.Context(), []Reset{{Limit: limit, Key: "a"}}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Minute) // the others are notified
					if got := f.count(9, debit(limit, "a", 1)); got != 3 {
						t.Errorf("%d passed after the reset, want 3", got)
					}
					for _, p := range held {
						p.Settle(false)
					}
					if got := f.count(9, debit(limit, "a", 1)); got != 0 {
						t.Errorf("%d passed after units came back from before the reset, want none", got)
					}
					after := f.hold(1, limit, "b")
					after[0].Settle(false)
					if got := f.count(9, debit(limit, "b", 1)); got != 3 {
						t.Errorf("%d of another key passed, want 3", got)
					}
					for _, e := range engines {
						e.Close(t.Context())
					}
				})
			})
		}
	}
}

// A key with held units stays in memory, regardless of the number of other keys.
func TestHeldKeysStay(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.MaxKeys = 1 })
	limit := sliding(t, 3, time.Hour)
	held := f.hold(3, limit, "a")
	for i := range 500 {
		f.count(1, debit(limit, fmt.Sprint(i), 1))
	}
	f.table.sweep(f.clock.Now(), func(<-chan struct{}) {}, func(int) {})
	f.table.sweep(f.clock.Now(), func(<-chan struct{}) {}, func(int) {})
	if c := f.table.find(limit.ID, []byte("a")); !c.exists() || c != held[0].cell {
		t.Error("the key has left memory")
	}
	for _, p := range held {
		p.Settle(false)
	}
	if got := f.count(9, debit(limit, "a", 1)); got != 3 {
		t.Errorf("%d passed after all came back, want 3", got)
	}
	f.table.sweep(f.clock.Now(), func(<-chan struct{}) {}, func(int) {})
	f.table.sweep(f.clock.Now(), func(<-chan struct{}) {}, func(int) {})
	if c := f.table.find(limit.ID, []byte("a")); c.exists() && !c.blocks().anyAt(f.clock.Now()) {
		t.Error("the key is still in memory, and nothing is held")
	}
}

// A request takes from all of its limits or none, even if it only holds units.
func TestHeldIsAllOrNone(t *testing.T) {
	for _, how := range []Counting{Held, Afterwards} {
		f := newFixture(t)
		held, other := sliding(t, 2, time.Hour), sliding(t, 1, time.Hour)
		passed := 0
		for range 5 {
			debits := []Debit{{Limit: held, Key: []byte("a"), Cost: 1, Counting: how}, debit(other, "a", 1)}
			if f.Decide(context.Background(), nil, debits).Allowed {
				passed++
				debits[0].Pending.Settle(true)
			}
		}
		if passed != 1 {
			t.Errorf("%d passed, want the 1 of the other limit", passed)
		}
		if got := f.count(9, debit(held, "a", 1)); got != 1 {
			t.Errorf("%d are left, want 1", got)
		}
	}
}

// Units held through an outage, or taken in one, come back or stay charged, and are charged once.
func TestHeldUnitsInAnOutage(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 10, Window: 24 * time.Hour})
			inBubble(t, func(t *testing.T, e *faulty) {
				before := e.hold(2, limit, "a")
				e.broken.Store(true)
				during := e.hold(2, limit, "a") // of the 4 that are 40 %, 2 are in use
				if _, d := e.counting(Held, limit, "a", 1); d.Allowed {
					t.Fatalf("a fifth passed in the outage: %+v", d)
				}
				during[0].Settle(false)
				if got := e.count(3, debit(limit, "a", 1)); got != 1 {
					t.Errorf("%d passed in the outage after one came back, want 1", got)
				}
				before[0].Settle(false)
				e.broken.Store(false)
				time.Sleep(time.Minute)
				during[1].Settle(false) // the store was charged with it
				before[1].Settle(true)
				synctest.Wait()
				if got := e.count(20, debit(limit, "a", 1)); got != 7 {
					t.Errorf("%d passed afterwards with 3 in use, want 7", got)
				}
			})
		})
	}
}

// Requests with Afterwards are allowed while their cost is free. When they turn out to count they
// are charged as far as it is free.
func TestCountingAfterwards(t *testing.T) {
	onStores(t, limiter.Params{Amount: 5, Window: time.Hour}, func(t *testing.T, f *fixture, limit *Limit) {
		for range 50 { // they don't count
			p, d := f.counting(Afterwards, limit, "a", 1)
			if !d.Allowed {
				t.Fatalf("a request that doesn't count: %+v", d)
			}
			p.Settle(false)
		}
		var under []*Pending
		for range 8 { // concurrently
			p, d := f.counting(Afterwards, limit, "a", 1)
			if !d.Allowed {
				t.Fatalf("nothing has counted yet: %+v", d)
			}
			under = append(under, p)
		}
		for _, p := range under[:3] {
			p.Settle(true)
			p.Settle(true)
		}
		if got := f.count(1, debit(limit, "a", 1)); got != 1 {
			t.Error("a fourth was refused")
		}
		for _, p := range under[3:] {
			p.Settle(true)
		}
		_, d := f.counting(Afterwards, limit, "a", 1)
		if d.Allowed || d.Retry <= 0 || !d.Fresh {
			t.Errorf("after more than five have counted: %+v, want it refused, and news", d)
		}
		if used := f.disk.used(limit, "a", f.clock.Now()); used != 5 {
			t.Errorf("%d are charged, want the 5 that there were", used)
		}
	})
}

// Requests with Afterwards that count are charged in an outage as well, and after their batch
// fails.
func TestCountingAfterwardsInAnOutage(t *testing.T) {
	limit := sliding(t, 10, 24*time.Hour)
	inBubble(t, func(t *testing.T, e *faulty) {
		var under []*Pending
		for range 6 {
			p, _ := e.counting(Afterwards, limit, "a", 1)
			under = append(under, p)
		}
		under[0].Settle(true) // from the lease
		e.broken.Store(true)
		under[1].Settle(true)     // goes into a batch that fails
		time.Sleep(2 * gatherFor) // which that batch may be open for
		synctest.Wait()
		under[2].Settle(true)
		if !e.committer.degraded.Load() {
			t.Fatal("there is no outage")
		}
		p, d := e.counting(Afterwards, limit, "a", 1)
		if !d.Allowed || !d.Degraded {
			t.Fatalf("in the outage: %+v", d)
		}
		p.Settle(true)
		if _, d := e.counting(Afterwards, limit, "a", 1); d.Allowed {
			t.Errorf("in the outage, after 4 of the 4 that are 40 %% have counted: %+v", d)
		}
		e.broken.Store(false)
		time.Sleep(time.Minute)
		if used := e.disk.used(limit, "a", e.clock.Now()); used != 4 {
			t.Errorf("%d are charged after the outage, want 4", used)
		}
	})
}

// The debit's quota is the one left if the request doesn't count, and its pending part has the one
// left if it does.
func TestQuotaOfPendingRequests(t *testing.T) {
	for _, how := range []Counting{Held, Afterwards} {
		f := newFixture(t)
		limit := sliding(t, 5, time.Hour)
		f.count(1, debit(limit, "a", 1))
		debits := []Debit{{Limit: limit, Key: []byte("a"), Cost: 2, Counting: how}}
		f.Decide(context.Background(), nil, debits)
		if d := debits[0]; d.Quota.Remaining != 4 || d.Pending.Counted.Remaining != 2 {
			t.Errorf("%d are left, and %d if it counts; want 4 and 2", d.Quota.Remaining, d.Pending.Counted.Remaining)
		}
	}
}

// A forecast of a held request holds nothing.
func TestForecastHoldsNothing(t *testing.T) {
	f := &fixture{t: t, Engine: onDatabase(t, memory.New())}
	defer f.Close(t.Context())
	limit := sliding(t, 5, time.Hour)
	f.count(4, debit(limit, "a", 1))
	for range 3 {
		debits := []Debit{{Limit: limit, Key: []byte("a"), Cost: 1, Counting: Held}}
		if d := f.Forecast(context.Background(), nil, debits); !d.Allowed || debits[0].Pending != nil {
			t.Fatalf("%+v with %+v pending, want it allowed and nothing", d, debits[0].Pending)
		}
	}
	if got := f.count(9, debit(limit, "a", 1)); got != 1 {
		t.Errorf("%d passed, want 1", got)
	}
}
