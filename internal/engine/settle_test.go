package engine

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// A request that turns out to use less than it has taken gets the rest back, once.
func TestUnusedUnitsComeBack(t *testing.T) {
	onStores(t, limiter.Params{Amount: 100, Window: time.Hour}, func(t *testing.T, f *fixture, limit *Limit) {
		p, d := f.counting(Held, limit, "a", 60)
		if !d.Allowed {
			t.Fatalf("%+v", d)
		}
		if _, d := f.counting(Held, limit, "a", 60); d.Allowed {
			t.Error("another request passed while the units are held")
		}
		p.SettleAt(10)
		p.SettleAt(0)
		p.Settle(false)
		if got := f.count(200, debit(limit, "a", 1)); got != 90 {
			t.Errorf("%d units were left, want 90", got)
		}
		f.checkUsed(limit, "a", 100)
	})
}

// A request that turns out to use more than it has taken is charged the difference, whether that is free
// or not. At most the amount of the limit is charged on top.
func TestMoreUnitsAreCharged(t *testing.T) {
	for _, tt := range []struct{ units, used int64 }{{60, 60}, {100, 100}, {105, 105}, {1_000_000, 110}} {
		onStores(t, limiter.Params{Amount: 100, Window: time.Hour}, func(t *testing.T, f *fixture, limit *Limit) {
			p, _ := f.counting(Held, limit, "a", 10)
			p.SettleAt(tt.units)
			left := max(100-tt.used, 0)
			if got := f.count(200, debit(limit, "a", 1)); int64(got) != left {
				t.Errorf("%d used: %d units were left, want %d", tt.units, got, left)
			}
			f.checkUsed(limit, "a", max(tt.used, 100))
		})
	}
}

// Requests that all use far more than there is leave a key that owes a limit at most, or what they have
// used in a window.
func TestDebtIsBounded(t *testing.T) {
	onStores(t, limiter.Params{Amount: 100, Window: time.Hour}, func(t *testing.T, f *fixture, limit *Limit) {
		held := f.hold(50, limit, "a")
		for _, p := range held {
			p.SettleAt(1_000_000)
		}
		if d := f.ask(debit(limit, "a", 1)); d.Allowed || d.Retry <= 0 || d.Retry > 2*time.Hour {
			t.Errorf("%+v, want it refused for two windows at most", d)
		}
		f.fake.advance(2*time.Hour + time.Minute)
		if d := f.ask(debit(limit, "a", 1)); !d.Allowed {
			t.Errorf("after two windows: %+v, want it allowed", d)
		}
	})
}

// A token bucket owes what a request has used beyond its burst, too: over a long time no more is used
// than the rate allows, but for the last request.
func TestTokenBucketOwesMoreThanItsBurst(t *testing.T) {
	f := newFixture(t)
	limit := newLimit(t, limiter.Params{Amount: 36_000, Window: time.Hour, Burst: 100, Algorithm: limiter.TokenBucket})
	const uses, seconds = 3000, 1800
	used := int64(0)
	for range seconds {
		if p, d := f.counting(Held, limit, "a", 1); d.Allowed {
			p.SettleAt(uses)
			used += uses
		}
		f.fake.advance(time.Second)
	}
	if free := int64(100 + 10*seconds); used > free+uses || used < free-uses {
		t.Errorf("%d units were used, want %d, and %d more at most", used, free, uses)
	}
}

// However many requests settle at a time, what is used in the end is what they have used.
func TestRequestsSettleAtOnce(t *testing.T) {
	onStores(t, limiter.Params{Amount: 1_000_000, Window: time.Hour}, func(t *testing.T, f *fixture, limit *Limit) {
		var all sync.WaitGroup
		var mu sync.Mutex
		used := int64(0)
		for range 200 {
			all.Go(func() {
				p, d := f.counting(Held, limit, "a", 1+rand.Int64N(50))
				if !d.Allowed {
					t.Errorf("%+v", d)
					return
				}
				units := rand.Int64N(100)
				p.SettleAt(units)
				mu.Lock()
				used += units
				mu.Unlock()
			})
		}
		all.Wait()
		f.checkUsed(limit, "a", used)
	})
}

// checkUsed closes the engine and checks how many units of a key are in use on the disk.
func (f *fixture) checkUsed(limit *Limit, key string, want int64) {
	f.t.Helper()
	if err := f.Close(context.Background()); err != nil {
		f.t.Fatal(err)
	}
	if used := f.disk.used(limit, key, f.clock.Now()); used != want {
		f.t.Errorf("%d units are in use in the end, want %d", used, want)
	}
}
