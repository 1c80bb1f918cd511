package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// faulty is a store whose faults are switched on and off.
type faulty struct {
	*fixture
	broken atomic.Bool
	opens  atomic.Int64
	events eventLog
}

// eventLog counts the events that an observer is notified of.
type eventLog struct {
	noObserver
	outages, degraded, reminded, recovered atomic.Int64
}

func (l *eventLog) Outage() { l.outages.Add(1) }

func (l *eventLog) Degraded(since time.Duration, _ error) {
	if since == 0 {
		l.degraded.Add(1)
	} else {
		l.reminded.Add(1)
	}
}

func (l *eventLog) Recovered(time.Duration) { l.recovered.Add(1) }

// inBubble runs f with an engine on a store that can be broken, in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, e *faulty)) {
	bubble.Test(t, func(t *testing.T) {
		e := &faulty{}
		d := newDisk()
		e.fixture = newFixture(t, func(o *Options) {
			o.Clock, o.StoreTimeout, o.Observer = nil, 100*time.Millisecond, &e.events
			o.Open = func(context.Context) (storage.Store, error) {
				e.opens.Add(1)
				if e.broken.Load() {
					return nil, errDisk
				}
				return &hookedStore{disk: d, before: func([]storage.Claim) error {
					if e.broken.Load() {
						return errDisk
					}
					return nil
				}}, nil
			}
		})
		e.disk = d
		synctest.Wait()
		f(t, e)
		e.Close(t.Context())
	})
}

func TestBrokenStoreAdmitsAShareAndChargesItLater(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 10, Window: 24 * time.Hour})
			inBubble(t, func(t *testing.T, e *faulty) {
				e.broken.Store(true)
				if got := e.count(20, debit(limit, "a", 1)); got != 4 {
					t.Errorf("%d of 10 passed without the store, want the 4 that are 40 %%", got)
				}
				e.broken.Store(false)
				time.Sleep(time.Minute)
				if used := e.disk.used(limit, "a", e.clock.Now()); used != 4 {
					t.Errorf("%d are charged after the outage, want the 4 that were admitted", used)
				}
				if e.committer.degraded.Load() || e.events.degraded.Load() != 1 || e.events.recovered.Load() != 1 {
					t.Errorf("degraded %v, told %d times that it is and %d times that it is over",
						e.committer.degraded.Load(), e.events.degraded.Load(), e.events.recovered.Load())
				}
				if got := e.count(20, debit(limit.with(t, 11), "a", 1)); got != 7 {
					t.Errorf("%d passed afterwards of 11 with 4 used, want 7", got)
				}
			})
		})
	}
}

// Usage before an outage counts in it.
func TestOutageDoesNotDoubleALimit(t *testing.T) {
	limit := sliding(t, 10, 24*time.Hour)
	inBubble(t, func(t *testing.T, e *faulty) {
		before := e.count(3, debit(limit, "a", 1))
		e.broken.Store(true)
		during := e.count(20, debit(limit, "a", 1))
		e.broken.Store(false)
		time.Sleep(time.Minute)
		again := e.count(20, debit(limit, "a", 1)) // it is still blocked
		e.broken.Store(true)
		e.count(1, debit(limit, "b", 1))
		third := e.count(20, debit(limit, "a", 1))
		if total := before + during + again + third; total > 10 {
			t.Errorf("%d + %d + %d + %d passed a limit of 10", before, during, again, third)
		}
		if before+during > 5 || before+during < 4 {
			t.Errorf("%d passed before and %d in the outage; a share of 4 less what is known allows 4 in all, and what was held in a lease", before, during)
		}
	})
}

// A client that stayed within the reduced limit all through a long outage has not used up its limit
// for a long time after it.
func TestDebtsDrain(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 600, Window: time.Minute})
			inBubble(t, func(t *testing.T, e *faulty) {
				e.broken.Store(true)
				for range 10 * 60 {
					if e.count(3, debit(limit, "a", 1)) == 0 { // 30 % of the amount
						t.Fatal("refused in the outage")
					}
					time.Sleep(time.Second)
				}
				e.broken.Store(false)
				eventuallyInBubble(t, func() bool { return !e.committer.degraded.Load() })
				if d := e.ask(debit(limit, "a", 1)); !d.Allowed {
					t.Errorf("after the outage: %+v", d)
				}
				if used := e.disk.used(limit, "a", e.clock.Now()); used > 300 {
					t.Errorf("%d of 600 are charged after it", used)
				}
			})
		})
	}
}

// Units admitted in an outage are charged to the slots of their admission, regardless of the number
// of slots.
func TestDebtsOfManySlots(t *testing.T) {
	limit := sliding(t, 100, time.Hour)
	inBubble(t, func(t *testing.T, e *faulty) {
		e.broken.Store(true)
		for range 30 {
			if e.count(1, debit(limit, "a", 1)) != 1 {
				t.Fatal("refused in the outage")
			}
			time.Sleep(time.Minute)
		}
		e.broken.Store(false)
		eventuallyInBubble(t, func() bool { return !e.committer.degraded.Load() })
		if used := e.disk.used(limit, "a", e.clock.Now()); used != 30 {
			t.Errorf("%d charged after the outage, want the 30 admitted", used)
		}
		time.Sleep(45 * time.Minute)
		if used := e.disk.used(limit, "a", e.clock.Now()); used < 14 || used > 16 {
			t.Errorf("%d charged 45 minutes later, want about half of them", used)
		}
	})
}

// A long outage leaves at most as many debts of a key as a window has slots.
func TestDebtsAreBounded(t *testing.T) {
	limit := sliding(t, 1000, time.Minute)
	inBubble(t, func(t *testing.T, e *faulty) {
		e.broken.Store(true)
		for range 600 {
			e.count(1, debit(limit, "a", 1))
			time.Sleep(time.Second)
		}
		c := e.table.find(limit.ID, []byte("a"))
		c.Lock()
		defer c.Unlock()
		if owed := len(c.rare().local.debts); owed < 60 || owed > 61 {
			t.Errorf("%d debts, want one for each slot that counts", owed)
		}
	})
}

// In an outage, only memory knows the keys, and keeps idle ones.
func TestIdleKeysAreKnownInAnOutage(t *testing.T) {
	limit := sliding(t, 10, 24*time.Hour)
	inBubble(t, func(t *testing.T, e *faulty) {
		e.count(8, debit(limit, "a", 1))
		e.broken.Store(true)
		e.count(1, debit(limit, "b", 1))
		time.Sleep(time.Hour)
		if got := e.count(5, debit(limit, "a", 1)); got > 1 { // its lease
			t.Errorf("%d passed in the outage with 8 of 10 used", got)
		}
	})
}

// eventuallyInBubble waits for a condition that comes true with time.
func eventuallyInBubble(t *testing.T, true func() bool) {
	t.Helper()
	for range 600 {
		if time.Sleep(100 * time.Millisecond); true() {
			return
		}
	}
	t.Fatal("waited for a minute in vain")
}

func TestRefusedRequestsCostNothingInAnOutage(t *testing.T) {
	wide, narrow := sliding(t, 100, time.Hour), sliding(t, 10, time.Hour)
	inBubble(t, func(t *testing.T, e *faulty) {
		e.broken.Store(true)
		if got := e.count(100, debit(wide, "a", 1), debit(narrow, "a", 1)); got != 4 {
			t.Errorf("%d passed both, want 4", got)
		}
		if got := e.count(100, debit(wide, "a", 1)); got != 36 {
			t.Errorf("%d passed the first alone afterwards, want the 36 that are left of 40", got)
		}
	})
}

func TestSlowStoreDelaysByTheTimeoutOnly(t *testing.T) {
	limit := sliding(t, 10, time.Hour)
	bubble.Test(t, func(t *testing.T) {
		d := newDisk()
		hang := make(chan struct{})
		f := newFixture(t, func(o *Options) {
			o.Clock, o.StoreTimeout = nil, 100*time.Millisecond
			o.Open = func(context.Context) (storage.Store, error) {
				return &hookedStore{disk: d, before: func([]storage.Claim) error { <-hang; return nil }}, nil
			}
		})
		start := time.Now()
		if !f.ask(debit(limit, "a", 1)).Allowed {
			t.Error("the first request was refused while the store hung")
		}
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		start = time.Now()
		got := f.count(20, debit(limit, "a", 1))
		if took := time.Since(start); took != 0 || got != 3 {
			t.Errorf("then %d more passed in %v, want 3 in no time", got, took)
		}
		close(hang)
		time.Sleep(time.Minute)
		if used := d.used(limit, "a", f.clock.Now()); used < 4 || used > 6 {
			t.Errorf("%d are charged in the end, want the 4 admitted and at most what the late grant holds", used)
		}
		f.Close(t.Context())
		if used := d.used(limit, "a", f.clock.Now()); used != 4 {
			t.Errorf("%d are charged after the close, want the 4 admitted", used)
		}
	})
}

// A store that opens and can't be written to is not in use again.
func TestRecoveryTakesAWrite(t *testing.T) {
	limit := sliding(t, 10, time.Hour)
	bubble.Test(t, func(t *testing.T) {
		var readOnly atomic.Bool
		var events eventLog
		d := newDisk()
		f := newFixture(t, func(o *Options) {
			o.Clock, o.StoreTimeout, o.Observer = nil, 100*time.Millisecond, &events
			o.Open = func(context.Context) (storage.Store, error) {
				return &hookedStore{disk: d, before: func([]storage.Claim) error {
					if readOnly.Load() {
						return errDisk
					}
					return nil
				}}, nil
			}
		})
		readOnly.Store(true)
		if f.ask(debit(limit, "a", 5)).Allowed { // so there is no debt
			t.Error("5 of 10 passed without the store")
		}
		time.Sleep(10 * time.Minute)
		if recovered := events.recovered.Load(); recovered != 0 || !f.committer.degraded.Load() {
			t.Errorf("told %d times that a store that can't be written to is in use again", recovered)
		}
		readOnly.Store(false)
		time.Sleep(time.Minute)
		if f.committer.degraded.Load() || !f.ask(debit(limit, "b", 5)).Allowed {
			t.Error("the store can be written to, and is not in use")
		}
		f.Close(t.Context())
	})
}

func TestStatsTellWhyTheStoreCannotBeUsed(t *testing.T) {
	inBubble(t, func(t *testing.T, e *faulty) {
		if s := e.Stats(t.Context()); s.Degraded || s.Cause != nil || !s.Since.IsZero() {
			t.Errorf("stats of a store in use are %+v", s)
		}
		e.broken.Store(true)
		e.count(1, debit(sliding(t, 10, time.Hour), "a", 1))
		began := time.Now()
		time.Sleep(10 * time.Minute)
		if s := e.Stats(t.Context()); !s.Degraded || !errors.Is(s.Cause, errDisk) || !s.Since.Equal(began) {
			t.Errorf("stats of an outage that began %v are %+v", began, s)
		}
		e.broken.Store(false)
		time.Sleep(time.Minute)
		if s := e.Stats(t.Context()); s.Degraded || s.Cause != nil || !s.Since.IsZero() {
			t.Errorf("stats after the outage are %+v", s)
		}
	})
}

func TestProbesBackOff(t *testing.T) {
	inBubble(t, func(t *testing.T, e *faulty) {
		e.broken.Store(true)
		e.count(1, debit(sliding(t, 10, time.Hour), "a", 1))
		opens := e.opens.Load()
		time.Sleep(10 * time.Minute)
		probes := e.opens.Load() - opens
		if probes < 40 || probes > 110 {
			t.Errorf("%d probes in ten minutes, want about one in ten seconds", probes)
		}
		if n := e.events.reminded.Load(); n < 8 || n > 10 {
			t.Errorf("told %d times in ten minutes that the outage goes on, want once a minute", n)
		}
	})
}

// Processes that lost one store together don't try it again at the same time.
func TestProbesSpread(t *testing.T) {
	first, last := jittered(time.Minute), jittered(time.Minute)
	for range 1000 {
		d := jittered(time.Minute)
		first, last = min(first, d), max(last, d)
	}
	if first < 45*time.Second || last > 75*time.Second || last-first < 20*time.Second {
		t.Errorf("probes are %v to %v apart, want about a minute", first, last)
	}
}

// Whichever call of the store fails, requests are answered, limits hold, and the engine recovers by
// itself.
func TestEveryStepMayFail(t *testing.T) {
	for _, fault := range []error{errDisk, errors.Join(errDisk, storage.ErrUnknownOutcome)} {
		for fails := int64(1); fails <= 12; fails++ {
			limit := sliding(t, 20, 24*time.Hour)
			bubble.Test(t, func(t *testing.T) {
				testStepFails(t, limit, fails, fault)
			})
		}
	}
}

func testStepFails(t *testing.T, limit *Limit, fails int64, fault error) {
	d := newDisk()
	var step atomic.Int64
	failing := func() error {
		if step.Add(1) == fails {
			return fault
		}
		return nil
	}
	f := newFixture(t, func(o *Options) {
		o.Clock, o.StoreTimeout = nil, 100*time.Millisecond
		o.Open = func(context.Context) (storage.Store, error) {
			if err := failing(); err != nil {
				return nil, err
			}
			return &hookedStore{disk: d, before: func([]storage.Claim) error { return failing() }}, nil
		}
	})
	allowed := 0
	for range 12 {
		allowed += f.count(4, debit(limit, "a", 1))
		time.Sleep(time.Second)
	}
	if allowed > 20 {
		t.Errorf("step %d fails: %d passed a limit of 20", fails, allowed)
	}
	if allowed < 8 {
		t.Errorf("step %d fails: only %d of 20 passed", fails, allowed)
	}
	if f.committer.degraded.Load() {
		t.Errorf("step %d failed once, and the engine did not recover", fails)
	}
	f.Close(t.Context())
}

// A grant that comes too late for its waiting requests pays for the units that memory admitted in
// their place; the rest counts as used.
func TestLateGrantPaysForWhatMemoryAdmitted(t *testing.T) {
	limit := sliding(t, 100, 24*time.Hour)
	bubble.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		d := newDisk()
		f := newFixture(t, func(o *Options) {
			o.Clock, o.StoreTimeout = nil, 100*time.Millisecond
			o.Open = func(context.Context) (storage.Store, error) {
				return &hookedStore{disk: d, before: func([]storage.Claim) error { <-hang; return nil }}, nil
			}
		})
		if f.ask(debit(limit, "a", 80)).Allowed { // 80 is more than memory admits
			t.Error("80 of 100 passed while the store hung")
		}
		passed := int64(f.count(50, debit(limit, "a", 1)))
		close(hang)
		synctest.Wait()
		passed += int64(f.count(200, debit(limit, "a", 1)))
		time.Sleep(time.Minute)
		passed += int64(f.count(200, debit(limit, "a", 1)))
		if passed != 100 {
			t.Errorf("%d passed in the end, want the 100 there are", passed)
		}
		f.Close(t.Context())
		if used := d.used(limit, "a", f.clock.Now()); used != 100 {
			t.Errorf("%d charged, want 100", used)
		}
	})
}

// Requests refused by memory in an outage may pass after it.
func TestRefusalsByMemoryEndWithTheOutage(t *testing.T) {
	limit := sliding(t, 1000, 24*time.Hour)
	inBubble(t, func(t *testing.T, e *faulty) {
		passed := e.count(450, debit(limit, "a", 1))
		e.broken.Store(true)
		passed += e.count(200, debit(limit, "a", 1))
		if d := e.ask(debit(limit, "a", 1)); d.Reason != Blocked {
			t.Errorf("in the outage: %+v, want blocked", d)
		}
		e.broken.Store(false)
		time.Sleep(time.Minute)
		if passed += e.count(1000, debit(limit, "a", 1)); passed != 1000 {
			t.Errorf("%d passed in all, want the 1000 there are", passed)
		}
	})
}

// Requests refused by the store before an outage are refused from memory after it as well,
// regardless of memory's refusals meanwhile.
func TestRefusalsByTheStoreOutliveTheOutage(t *testing.T) {
	limit := sliding(t, 10, 24*time.Hour)
	inBubble(t, func(t *testing.T, e *faulty) {
		e.count(1, debit(limit, "a", 6))
		if d := e.ask(debit(limit, "a", 5)); d.Reason != OverLimit || d.Degraded {
			t.Fatalf("before the outage: %+v, want a refusal by the store", d)
		}
		e.broken.Store(true)
		e.count(1, debit(limit, "b", 1))
		if d := e.ask(debit(limit, "a", 1)); d.Reason != OverLimit || !d.Degraded {
			t.Fatalf("in the outage: %+v, want a refusal by memory", d)
		}
		e.broken.Store(false)
		time.Sleep(time.Minute)
		if d := e.ask(debit(limit, "a", 5)); d.Reason != Blocked {
			t.Errorf("after the outage: %+v, want blocked", d)
		}
	})
}

// A flood of keys in an outage doesn't make memory forget keys near their limit.
func TestFloodInAnOutage(t *testing.T) {
	limit := sliding(t, 10, 24*time.Hour)
	inBubble(t, func(t *testing.T, e *faulty) {
		e.table.Max.Store(1000)
		e.broken.Store(true)
		passed := 0
		for round := range 5 {
			passed += e.count(10, debit(limit, "a", 1))
			for i := range 3000 {
				e.ask(debit(limit, fmt.Sprint(round, " ", i), 1))
			}
		}
		if passed != 4 {
			t.Errorf("%d of 10 passed, want the 4 of an outage", passed)
		}
		if keys := e.Stats(t.Context()).Keys; keys > 1000+shards {
			t.Errorf("%d keys in memory, want about 1000", keys)
		}
		e.broken.Store(false)
		time.Sleep(time.Minute)
		if used := e.disk.used(limit, "a", e.clock.Now()); used != 4 {
			t.Errorf("%d charged in the end, want 4", used)
		}
	})
}

// A store that opens well and then fails is reported once a minute, and tried less and less often.
func TestFlapping(t *testing.T) {
	limit := sliding(t, 10, time.Hour)
	bubble.Test(t, func(t *testing.T) {
		var events eventLog
		var opens int
		f := newFixture(t, func(o *Options) {
			o.Clock, o.StoreTimeout, o.Observer = nil, 100*time.Millisecond, &events
			o.Open = func(context.Context) (storage.Store, error) {
				opens++
				return &hookedStore{disk: newDisk(), before: func([]storage.Claim) error { return errDisk }}, nil
			}
		})
		synctest.Wait()
		for i := range 6000 { // ten minutes
			f.ask(debit(limit, fmt.Sprint(i), 1))
			time.Sleep(100 * time.Millisecond)
		}
		f.Close(t.Context())
		if lines := events.degraded.Load() + events.reminded.Load() + events.recovered.Load(); lines > 25 {
			t.Errorf("told %d times in ten minutes", lines)
		}
		if opens > 110 {
			t.Errorf("opened %d times in ten minutes", opens)
		}
	})
}

// A recovery and a request that detects a fault of the store may overtake one another.
func TestOutageThatEndedMayGoOn(t *testing.T) {
	var o outage
	if next, _ := o.goOn(errDisk, lastProbe); next <= 0 {
		t.Errorf("the next probe comes after %v", next)
	}
	o.begin(errDisk, lastProbe)
	o.end()
	if next, _ := o.goOn(errDisk, lastProbe); next <= 0 {
		t.Errorf("the next probe comes after %v", next)
	}
}

// In a long outage memory holds a bounded state of a key, regardless of the number of slots of its
// limit, and admitted units still count, then and afterwards.
func TestMemoryOfALongOutage(t *testing.T) {
	const amount = 1000
	limit := newLimit(t, limiter.Params{Amount: amount, Window: 24 * time.Hour, Slots: limiter.MaxSlots})
	inBubble(t, func(t *testing.T, e *faulty) {
		e.broken.Store(true)
		var admitted []time.Time
		for range 2 * limiter.MaxSlots / 10 {
			if e.count(1, debit(limit, "a", 1)) == 1 {
				admitted = append(admitted, time.Now())
			}
			time.Sleep(10 * limit.Window() / limiter.MaxSlots)
		}
		within := func() (n int64) {
			for _, at := range admitted {
				if time.Since(at) < limit.Window() {
					n++
				}
			}
			return n
		}
		if got := within(); got > amount*40/100 || got < amount*38/100 {
			t.Errorf("%d passed in a window, want the 400 that are 40 %%, or those of a 64th of a window less", got)
		}
		c := e.table.find(limit.ID, []byte("a"))
		c.Lock()
		slots, owed := len(c.rare().local.state.Slots), len(c.rare().local.debts)
		c.Unlock()
		if slots > 70 || owed > 70 {
			t.Errorf("memory holds %d slots and %d debts of a key", slots, owed)
		}
		e.broken.Store(false)
		time.Sleep(time.Minute)
		if used, want := e.disk.used(limit, "a", e.clock.Now()), within(); used < want || used > want+amount/20 {
			t.Errorf("%d are charged after the outage, want the %d that were admitted, or those of a 64th of a window more", used, want)
		}
	})
}

// A debt is paid from a grant if the grant is booked no earlier than the debt was spent. Otherwise
// as many units are given back, and the debt stays. A grant and debts are never worth more than the
// granted units.
func TestGrantPaysDebts(t *testing.T) {
	limit := sliding(t, 1000, time.Minute)
	f := newFixture(t)
	now := f.clock.Now()
	slot := limit.Slot(now)
	for _, tt := range []struct {
		at, units, debt          int64 // the grant's slot and units, and the debt in slot 0
		left, spent, owed, given int64
	}{
		{0, 5, 2, 3, 2, 0, 0}, {0, 5, 9, 0, 5, 4, 0}, // of the same slot
		{7, 5, 2, 3, 2, 0, 0}, {1, 5, 9, 0, 5, 4, 0}, // later
		{-1, 5, 2, 3, 0, 2, 2}, {-1, 5, 9, 0, 0, 9, 5}, // earlier
	} {
		c := f.table.add(kindOf(limit), limit.ID, fmt.Append(nil, tt))
		c.setLimitLocked(limit)
		c.setLocalLocked(&local{debts: []limiter.Charge{{At: slot, Units: tt.debt}}})
		granted := limiter.Lease{At: slot + tt.at, Units: tt.units, Used: 100}
		back := c.rare().local.settle(limit, &granted, now+int64(time.Minute)) // however late
		var owed int64
		for _, charge := range c.rare().local.debts {
			owed += charge.Units
		}
		if granted.Units != tt.left || granted.Spent != tt.spent || owed != tt.owed || back.Units != tt.given || back.At != granted.At {
			t.Errorf("%+v: %+v is left, %d owed and %+v given back", tt, granted, owed, back)
		}
	}
}

// Each outage is counted, even if only the first of successive ones is reported.
func TestEveryOutageCounts(t *testing.T) {
	limit := sliding(t, 1000, time.Hour)
	inBubble(t, func(t *testing.T, e *faulty) {
		for range 5 {
			e.broken.Store(true)
			e.ask(debit(limit, fmt.Sprint(e.opens.Load()), 1))
			e.broken.Store(false)
			eventuallyInBubble(t, func() bool { return !e.committer.degraded.Load() })
		}
		if outages, reported := e.events.outages.Load(), e.events.degraded.Load(); outages != 5 || reported != 1 {
			t.Errorf("%d outages count, of which %d were reported, want 5 and 1", outages, reported)
		}
	})
}

// An outage begins with a call that took too long. Its cause is reported as soon as it is known,
// and once: later causes come with the next reminder.
func TestCauseOfAnOutageIsReportedAtOnce(t *testing.T) {
	var o outage
	tooLong, full, gone := errors.New("took too long"), errors.New("no space left"), errors.New("connection refused")
	if _, _, tell := o.begin(tooLong, lastProbe); !tell {
		t.Fatal("the outage isn't reported")
	}
	for i, step := range []struct {
		cause    error
		reported bool
	}{{tooLong, false}, {full, true}, {full, false}, {gone, false}, {tooLong, false}} {
		if _, since := o.goOn(step.cause, lastProbe); (since > 0) != step.reported {
			t.Errorf("step %d: reported after %v", i, since)
		}
	}
	o.end()
	o.begin(tooLong, lastProbe) // soon after the last one, and not reported
	if _, since := o.goOn(full, lastProbe); since != 0 {
		t.Errorf("the cause of an outage that isn't reported is reported after %v", since)
	}
}

// A lease that is on its way back when an outage begins isn't spent beside the share that memory has
// admitted meanwhile.
func TestLeasesOnTheirWayWhenAnOutageBegins(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 3, Window: 24 * time.Hour})
			inBubble(t, func(t *testing.T, e *faulty) {
				one, now := debit(limit, "a", 1), e.clock.Now()
				e.ask(one)
				c, b := e.table.find(limit.ID, []byte("a")), &batch{done: make(chan struct{})}
				c.Lock()
				lease := c.leaseLocked()
				lease.Units, lease.Spent, lease.Used = 2, 1, 3
				c.setLeaseLocked(lease)
				all := debit(limit, "a", 3)
				b.claimLocked(c, &all, now)
				c.Unlock()
				e.broken.Store(true)
				e.committer.degrade(errDisk)
				admitted := 1 + e.count(5, one)
				e.committer.leases.undo(b.entries, errNotSent)
				time.Sleep(time.Second) // refusals of memory end
				if admitted += e.count(5, one); admitted > 3 {
					t.Errorf("%d admitted of 3", admitted)
				}
			})
		})
	}
}
