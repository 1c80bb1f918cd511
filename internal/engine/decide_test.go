package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
)

func TestExactlyTheLimitPassesAtOnce(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			f := newFixture(t)
			limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 100, Window: time.Hour})
			if got := f.rush(1000, debit(limit, "a", 1)); got != 100 {
				t.Errorf("%d of 1000 requests at once passed a limit of 100", got)
			}
		})
	}
}

// slowBuckets are token buckets that do not refill a whole unit while a test runs, but constantly
// parts of one.
func slowBuckets(t *testing.T) []*Limit {
	const month = 30 * 24 * time.Hour
	return []*Limit{
		newLimit(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 100, Window: month}),
		newLimit(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 10, Window: month, Burst: 100}),
	}
}

// onWallTime lets the clock run while requests are decided.
func onWallTime(o *Options) { o.Clock = nil }

// The lease of a claim drains until the next claim. Part of a unit was lost with it, and 99 passed.
func TestExactlyTheBucketPassesWhileItRefills(t *testing.T) {
	for range proof.Times(15, 4000) {
		for _, limit := range slowBuckets(t) {
			f := newFixture(t, onWallTime)
			if got := f.rush(1000, debit(limit, "a", 1)); got != 100 {
				t.Errorf("%d of 1000 requests at once passed a burst of 100 at %d in 30 days", got, limit.Amount())
			}
			f.Close(t.Context())
		}
	}
}

// A unit that was claimed in vain is not a whole one any more when it is given back, and stayed
// charged.
func TestNothingOfABucketIsLostOnTheWayBack(t *testing.T) {
	limit := newLimit(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 10, Window: 30 * 24 * time.Hour})
	disk, full := newDisk(), sliding(t, 1, time.Hour)
	for range 4 { // lives, which do not know the blocks
		f := startOn(t, disk, nil, onWallTime)
		f.ask(debit(limit, "a", 1), debit(full, "a", 1)) // passes once
		f.Close(t.Context())
	}
	f := startOn(t, disk, nil, onWallTime)
	if got := f.rush(100, debit(limit, "a", 1)); got != 9 {
		t.Errorf("%d units of 10 were left after 1 had passed", got)
	}
}

// rush sends n concurrent requests and returns how many were allowed.
func (f *fixture) rush(n int, debits ...Debit) int64 {
	var allowed atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range n {
		wg.Go(func() {
			<-start
			if f.ask(append([]Debit(nil), debits...)...).Allowed {
				allowed.Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	return allowed.Load()
}

func TestRefusedRequestsCostNothingInOtherLimits(t *testing.T) {
	for _, wide := range append(slowBuckets(t), sliding(t, 100, time.Hour)) {
		f := newFixture(t, onWallTime)
		narrow := sliding(t, 10, time.Hour)
		if got := f.rush(1000, debit(wide, "a", 1), debit(narrow, "a", 1)); got != 10 {
			t.Fatalf("%d passed both, want 10", got)
		}
		if got := f.count(200, debit(wide, "a", 1)); got != 90 {
			t.Errorf("%d passed the %v alone afterwards, want the 90 it has left", got, wide.Algorithm())
		}
	}
}

// Units claimed in vain are given back to the store, for other processes and later lives.
func TestRefusedRequestsLeaveNothingChargedElsewhere(t *testing.T) {
	f := newFixture(t)
	wide, narrow := sliding(t, 100, time.Hour), sliding(t, 10, time.Hour)
	f.rush(1000, debit(wide, "a", 1), debit(narrow, "a", 1))
	eventually(t, func() bool { return f.disk.used(wide, "a", f.clock.Now()) == 10 })
	other := startOn(t, f.disk, f.fake)
	if got := other.count(200, debit(wide, "a", 1)); got != 90 {
		t.Errorf("another process finds %d left of 90", got)
	}
}

func TestRetryIsTrue(t *testing.T) {
	for _, algorithm := range algorithms {
		for _, amount := range []int64{1, 7, 1000} {
			for _, window := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
				t.Run(fmt.Sprintf("%v/%d/%v", algorithm, amount, window), func(t *testing.T) {
					limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: amount, Window: window})
					testRetry(t, limit, amount)
				})
			}
		}
	}
}

func testRetry(t *testing.T, limit *Limit, amount int64) {
	f := newFixture(t)
	if got := f.count(int(amount), debit(limit, "a", 1)); got != int(amount) {
		t.Fatalf("%d of the first %d passed", got, amount)
	}
	d := f.ask(debit(limit, "a", 1))
	if d.Allowed || d.Retry <= 0 {
		t.Fatalf("request %d: %+v, want a refusal with a time to retry", amount+1, d)
	}
	f.fake.advance(d.Retry - 1)
	if again := f.ask(debit(limit, "a", 1)); again.Allowed || again.Reason != Blocked || again.Retry != 1 {
		t.Fatalf("one nanosecond before the retry time: %+v", again)
	}
	f.fake.advance(1)
	if again := f.ask(debit(limit, "a", 1)); !again.Allowed {
		t.Fatalf("after waiting for %v: %+v", d.Retry, again)
	}
}

func TestBlockedTouchesNeitherStoreNorLocks(t *testing.T) {
	f := newFixture(t)
	limit := sliding(t, 5, time.Hour)
	f.count(6, debit(limit, "a", 1))
	calls := f.store.calls.Load()

	c := f.table.find(limit.ID, []byte("a"))
	for _, mu := range shardLocks(f.table) {
		mu.Lock()
		defer mu.Unlock()
	}
	c.Lock()
	defer c.Unlock()
	f.committer.queue.mu.Lock()
	defer f.committer.queue.mu.Unlock()
	for range 1000 { // would never return if it took any of the locks
		if d := f.ask(debit(limit, "a", 1)); d.Reason != Blocked {
			t.Fatalf("%+v, want a refusal from memory", d)
		}
	}
	if now := f.store.calls.Load(); now != calls {
		t.Errorf("1000 blocked requests called the store %d times", now-calls)
	}
}

func TestBlockedIsForCostsLikeTheRefusedOne(t *testing.T) {
	f := newFixture(t)
	limit := sliding(t, 10, time.Hour)
	f.count(1, debit(limit, "a", 6))
	if d := f.ask(debit(limit, "a", 5)); d.Allowed {
		t.Fatal("6 and 5 of 10 passed")
	}
	if !f.ask(debit(limit, "a", 4)).Allowed {
		t.Fatal("a refused cost of 5 keeps a cost of 4 out")
	}
	f.count(1, debit(limit, "a", 1)) // blocks the cost of 1 as well
	calls := f.store.calls.Load()
	for cost := int64(1); cost <= 10; cost++ {
		f.ask(debit(limit, "a", cost))
	}
	if now := f.store.calls.Load(); now != calls {
		t.Errorf("requests of a blocked client called the store %d times", now-calls)
	}
}

func TestCosts(t *testing.T) {
	f := newFixture(t)
	limit := sliding(t, 10, time.Hour)
	if d := f.ask(debit(limit, "a", 11)); d.Reason != TooCostly || d.Retry != limiter.Never {
		t.Errorf("a cost above the amount: %+v", d)
	}
	if !f.ask(debit(limit, "a", 10)).Allowed {
		t.Error("a cost of the whole amount is refused")
	}
	if !f.ask(debit(limit, "a", 0)).Allowed {
		t.Error("a cost of nothing is refused")
	}
	if f.ask(debit(limit, "a", 1)).Allowed {
		t.Error("11 of 10 passed")
	}
}

func TestChangedAmountCountsAtOnce(t *testing.T) {
	f := newFixture(t)
	ten := sliding(t, 10, time.Hour)
	f.count(20, debit(ten, "a", 1))
	if got := f.count(20, debit(ten.with(t, 12), "a", 1)); got != 2 {
		t.Errorf("raised from 10 to 12: %d more passed, want 2", got)
	}
	if got := f.count(20, debit(ten.with(t, 5), "a", 1)); got != 0 {
		t.Errorf("lowered to 5 with 12 used: %d passed", got)
	}
}

// A lease that was claimed under a larger amount is worth at most the units that the amount in
// force leaves.
func TestLoweredAmountBoundsLeases(t *testing.T) {
	f := newFixture(t)
	large := sliding(t, 10_000, time.Hour)
	f.count(50, debit(large, "a", 1)) // holds a lease now
	if got := f.count(1000, debit(large.with(t, 60), "a", 1)); got != 10 {
		t.Errorf("lowered to 60 with 50 used: %d passed, want 10", got)
	}
}

// A token bucket whose amount changes, in any state, admits at most the units in memory on top of the larger
// amount and of what is refilled at its rate.
func TestBucketOfAnotherAmountAdmitsItsLeaseOnTop(t *testing.T) {
	const window = 1000 * time.Second
	for _, changed := range []int64{5, 60, 250, 1000, 4000} {
		for spent := 0; spent <= 1000; spent += 100 {
			for _, passed := range []time.Duration{0, 10 * time.Second, window / 2} {
				f := newFixture(t)
				before := newLimit(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 1000, Window: window})
				all := int64(f.count(spent, debit(before, "a", 1)))
				f.fake.advance(passed)
				all += int64(f.count(1, debit(before, "a", 1)))
				lease := f.table.find(before.ID, []byte("a")).leaseLocked().Units
				f.fake.advance(passed)
				all += int64(f.count(5000, debit(before.with(t, changed), "a", 1)))
				amount := max(changed, before.Amount())
				if most := amount + amount*int64(2*passed)/int64(window) + lease; all > most {
					t.Errorf("changed to %d after %d and %v: %d passed, want at most %d", changed, spent, passed, all, most)
				}
			}
		}
	}
}

// stoppingClock stops whoever reads it next, like SIGSTOP.
type stoppingClock struct {
	*fakeClock
	stopped atomic.Pointer[chan struct{}] // received from twice: when the reader has stopped, and to let it go on
}

func (c *stoppingClock) Elapsed() int64 {
	elapsed := c.fakeClock.Elapsed()
	if stopped := c.stopped.Swap(nil); stopped != nil {
		*stopped <- struct{}{}
		*stopped <- struct{}{}
	}
	return elapsed
}

// A process that is stopped between reading the time and counting lets only those requests pass on old
// units that it was deciding, and only as of then.
func TestStoppedProcessAdmitsWhatItWasDeciding(t *testing.T) {
	for _, algorithm := range algorithms {
		d, fake := newDisk(), newFakeClock()
		clock := &stoppingClock{fakeClock: fake}
		stopping := startOn(t, d, fake, func(o *Options) { o.Clock = clock })
		other := startOn(t, d, fake)
		limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 100, Window: time.Minute})
		for stopping.count(1, debit(limit, "a", 1)); stopping.table.find(limit.ID, []byte("a")).leaseLocked().Units == 0; {
			stopping.count(1, debit(limit, "a", 1))
		}
		stopped, decided := make(chan struct{}), make(chan Decision)
		before := stopping.clock.Now()
		clock.stopped.Store(&stopped)
		debits := []Debit{debit(limit, "a", 1)}
		go func() { decided <- stopping.Decide(context.Background(), nil, debits) }()
		<-stopped
		fake.advance(3 * time.Minute)
		all := other.count(200, debit(limit, "a", 1))
		<-stopped
		if d := <-decided; !d.Allowed || debits[0].at != before {
			t.Errorf("%v: the stopped request: %+v, as of %v later", algorithm, d, time.Duration(debits[0].at-before))
		}
		if all += stopping.count(200, debit(limit, "a", 1)); all != 100 {
			t.Errorf("%v: %d of 100 passed beside the stopped request", algorithm, all)
		}
	}
}

func TestQuota(t *testing.T) {
	f := newFixture(t)
	limit := sliding(t, 1000, time.Minute)
	for i := int64(1); i <= 1000; i++ {
		debits := []Debit{debit(limit, "a", 1)}
		f.Decide(context.Background(), nil, debits)
		if q := debits[0].Quota; !debits[0].Known || q.Remaining != 1000-i {
			t.Fatalf("after request %d: %+v, want %d remaining", i, q, 1000-i)
		}
		if q := debits[0].Quota; q.Reset < time.Minute || q.Reset > time.Minute+time.Second {
			t.Fatalf("after request %d: reset in %v", i, q.Reset)
		}
	}
}

func TestDrawsOfOneKeyAreOne(t *testing.T) {
	f := newFixture(t)
	limit := sliding(t, 10, time.Hour)
	if got := f.count(20, debit(limit, "a", 1), debit(limit, "a", 1)); got != 5 {
		t.Errorf("%d requests of twice 1 passed a limit of 10, want 5", got)
	}
}

func TestManyDraws(t *testing.T) {
	f := newFixture(t)
	var debits []Debit
	for i := range 3 * inlineDebits {
		debits = append(debits, debit(sliding(t, int64(20+i), time.Hour), fmt.Sprint("key", -i), 1))
	}
	if got := f.rush(100, debits...); got != 20 {
		t.Errorf("%d passed, want the 20 of the smallest limit", got)
	}
}

func TestHotKeysRarelyClaim(t *testing.T) {
	f := newFixture(t)
	limit := sliding(t, 1_000_000, time.Minute)
	const requests = 100_000
	for i := range requests {
		if i%1000 == 0 {
			f.fake.advance(50 * time.Millisecond) // 20,000 requests per second
		}
		f.ask(debit(limit, "a", 1))
	}
	if claims := f.store.claims.Load(); claims > requests/50 {
		t.Errorf("%d claims for %d requests, want at most 0.02 each", claims, requests)
	}
}

func TestSteadyClientMayUseItsWholeTokenBucket(t *testing.T) {
	f := newFixture(t)
	limit := newLimit(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 1000, Window: time.Second, Burst: 3000})
	for i := range 20_000 { // at 990 a second, with the whole burst left at the end
		f.fake.advance(time.Second / 990)
		if d := f.ask(debit(limit, "a", 1)); !d.Allowed {
			t.Fatalf("request %d of a client below the rate: %+v", i, d)
		}
	}
	if got := f.count(4000, debit(limit, "a", 1)); got != 2999 {
		t.Errorf("%d of the burst of 3000 were left to a client that stayed below the rate, want all but the last", got)
	}
}

// A raise ends in time for a request that waits, such as for units or for its body: it is decided again with the limit and
// the scaling that it has without.
func TestARaiseEndsWhileARequestWaits(t *testing.T) {
	for _, algorithm := range []limiter.Algorithm{limiter.Sliding, limiter.Fixed} {
		f := newFixture(t)
		base := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 10, Window: 240 * time.Hour})
		raised := debit(base.Raise(500), "key", 1)
		raised.Raise, raised.RaisedUntil = &Raise{Percent: 500, Limit: base}, f.Now()+int64(time.Hour)
		if n := f.count(30, raised); n != 30 {
			t.Fatalf("%v: %d of 30 pass", algorithm, n)
		}
		waiting := []Debit{raised}
		f.fake.advance(time.Hour - time.Second)
		if d := f.Decide(t.Context(), nil, waiting); !d.Allowed {
			t.Errorf("%v: a second before the end: %+v", algorithm, d)
		}
		f.fake.advance(2 * time.Second)
		if d := f.Decide(t.Context(), nil, waiting); d.Allowed || waiting[0].Limit != base {
			t.Errorf("%v: after the end: %+v", algorithm, d)
		}
	}
}
