package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// beside is a number of units that are used elsewhere until a time.
type beside struct{ units, until, admitted atomic.Int64 }

func (b *beside) Units(now int64) int64 {
	if now >= b.until.Load() {
		return 0
	}
	return b.units.Load()
}

func (b *beside) Admit(units, _ int64) { b.admitted.Add(units) }

func (b *beside) Retry(amount, cost, now int64) time.Duration {
	if cost > amount {
		return limiter.Never
	}
	return time.Duration(b.until.Load() - now)
}

// askBeside decides one request for a unit of a key that is also used elsewhere.
func (f *fixture) askBeside(limit *Limit, cost int64, by *beside) (Decision, Debit) {
	d := debit(limit, "a", cost)
	d.Foreign = by
	debits := []Debit{d}
	return f.Decide(context.Background(), nil, debits), debits[0]
}

// Units used elsewhere are not admitted here as well, and are admitted again when they no longer
// count there, even if the key was blocked meanwhile.
func TestElsewhereLowersLimits(t *testing.T) {
	for _, algorithm := range []limiter.Algorithm{limiter.Sliding, limiter.Fixed} {
		f := newFixture(t)
		limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 100, Window: 2400 * time.Hour})
		by := new(beside)
		count := func(n int) (allowed int) {
			for range n {
				if d, _ := f.askBeside(limit, 1, by); d.Allowed {
					allowed++
				}
			}
			return allowed
		}
		now := f.Now()
		by.until.Store(now + int64(time.Minute))
		by.units.Store(70)
		if got := count(50); got != 30 {
			t.Errorf("%v: %d passed of a limit of 100 of which 70 are used elsewhere", algorithm, got)
		}
		by.units.Store(60)
		if got := count(50); got != 10 {
			t.Errorf("%v: %d passed after 10 more were free", algorithm, got)
		}
		by.units.Store(100)
		d, left := f.askBeside(limit, 1, by)
		if d.Allowed || d.Reason != Blocked || d.Retry != time.Minute || left.Quota.Remaining != 0 {
			t.Errorf("%v: with all of it used elsewhere: %+v, %+v", algorithm, d, left.Quota)
		}
		if d, _ := f.askBeside(limit, 101, by); d.Reason != TooCostly || d.Retry != limiter.Never {
			t.Errorf("%v: a cost above the limit: %+v", algorithm, d)
		}
		f.fake.advance(time.Minute)
		if got := count(100); got != 60 {
			t.Errorf("%v: %d passed after nothing was used elsewhere any more, want 60", algorithm, got)
		}
	}
}

// A lease is worth at most the units left beside the usage elsewhere.
func TestElsewhereLowersLeases(t *testing.T) {
	f := newFixture(t)
	limit, by := sliding(t, 1000, time.Hour), new(beside)
	by.until.Store(f.Now() + int64(time.Hour))
	for range 100 { // until it has a lease
		f.askBeside(limit, 1, by)
	}
	by.units.Store(899)
	if d, _ := f.askBeside(limit, 1, by); !d.Allowed {
		t.Errorf("the last unit is refused: %+v", d)
	}
	if d, _ := f.askBeside(limit, 1, by); d.Allowed {
		t.Error("a lease was spent that others have used up")
	}
}

// A cost without room because of the usage elsewhere has a retry time.
func TestElsewhereTellsWhenToComeBack(t *testing.T) {
	f := newFixture(t)
	limit, by := sliding(t, 100, time.Hour), new(beside)
	by.until.Store(f.Now() + int64(time.Minute))
	by.units.Store(50)
	f.askBeside(limit, 40, by)
	d, _ := f.askBeside(limit, 20, by)
	if d.Allowed || d.Retry != time.Minute {
		t.Fatalf("20 of the 10 that are left: %+v, want a wait of a minute", d)
	}
	f.fake.advance(d.Retry)
	if d, _ := f.askBeside(limit, 20, by); !d.Allowed {
		t.Errorf("after that wait: %+v", d)
	}
}

// Buckets are charged with units used elsewhere, once.
func TestChargesFromElsewhere(t *testing.T) {
	f := newFixture(t)
	limit := newLimit(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 100, Window: time.Hour})
	f.Charge(limit, []byte("a"), limiter.Charge{Units: 60})
	if got := f.count(100, debit(limit, "a", 1)); got != 40 {
		t.Errorf("%d passed of a bucket of 100 that was charged 60", got)
	}
	for floor, want := range map[int64]int{50: 40, 80: 20} {
		key := fmt.Sprint(floor)
		f.Charge(limit, []byte(key), limiter.Charge{Units: 60})
		f.Charge(limit, []byte(key), limiter.Charge{Units: floor, Floor: true})
		if got := f.count(100, debit(limit, key, 1)); got != want {
			t.Errorf("%d passed of a bucket of 100 that was charged 60, at least %d in all", got, floor)
		}
	}
}

// Units charged while the store can't be used are charged to it when it is back.
func TestChargesFromElsewhereInAnOutage(t *testing.T) {
	limit := newLimit(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 100, Window: 240 * time.Hour})
	inBubble(t, func(t *testing.T, e *faulty) {
		e.broken.Store(true)
		e.ask(debit(limit, "a", 1)) // detects it
		e.Charge(limit, []byte("a"), limiter.Charge{Units: 60})
		e.broken.Store(false)
		time.Sleep(time.Minute)
		if got := e.count(100, debit(limit, "a", 1)); got != 39 {
			t.Errorf("%d passed of a bucket of 100 that was charged 61", got)
		}
	})
}

// A client's level and the usage elsewhere both lower a limit.
func TestElsewhereLowersTheLimitOfALevel(t *testing.T) {
	f := newFixture(t)
	full := sliding(t, 100, time.Hour)
	scaling := &Scaling{Points: 1}
	for i := range scaling.Levels {
		scaling.Levels[i] = full
	}
	scaling.Levels[reputation.Critical] = full.with(t, 50)
	f.Punish(&Client{Key: []byte("c")}, reputation.Offense{Violation: reputation.Violation{Reason: reputation.Forged}, Points: 90})
	by, allowed := new(beside), 0
	by.until.Store(f.Now() + int64(time.Hour))
	by.units.Store(30)
	for range 100 {
		d := debit(full, "a", 1)
		d.Foreign, d.Client, d.Scaling = by, &Client{Key: []byte("c")}, scaling
		if f.Decide(context.Background(), d.Client, []Debit{d}).Allowed {
			allowed++
		}
	}
	if allowed != 20 {
		t.Errorf("%d passed of 50, of which 30 are used elsewhere", allowed)
	}
}

// Admit is called for a pending request when it is settled as counting.
func TestElsewhereIsToldWhatCounts(t *testing.T) {
	for _, counting := range []Counting{Afterwards, Held} {
		f, by := newFixture(t), new(beside)
		limit := sliding(t, 100, time.Hour)
		for _, counts := range []bool{true, false} {
			d := debit(limit, "a", 3)
			d.Foreign, d.Counting = by, counting
			debits := []Debit{d}
			if !f.Decide(context.Background(), nil, debits).Allowed {
				t.Fatal("refused")
			}
			if got := by.admitted.Load(); counts && got != 0 {
				t.Errorf("%d units were told before it was known", got)
			}
			debits[0].Pending.Settle(counts)
			debits[0].Pending.Settle(true)
		}
		if got := by.admitted.Load(); got != 3 {
			t.Errorf("%d units were told, want 3", got)
		}
	}
}
