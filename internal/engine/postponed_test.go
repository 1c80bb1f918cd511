package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// slotted runs a test in a bubble, with a limit that counts slots of about an hour.
func slotted(t *testing.T, amount int64, test func(t *testing.T, e *faulty, limit *Limit)) {
	limit := newLimit(t, limiter.Params{Amount: amount, Window: 24 * time.Hour, Slots: 24})
	inBubble(t, func(t *testing.T, e *faulty) { test(t, e, limit) })
}

// A held unit that comes back as the store fails doesn't change the known state of later slots, and
// is given back after the outage.
func TestHeldUnitsComeBackAsTheStoreFails(t *testing.T) {
	slotted(t, 6, func(t *testing.T, e *faulty, limit *Limit) {
		e.count(3, debit(limit, "a", 1)) // they count
		held := e.hold(2, limit, "a")
		time.Sleep(2 * time.Hour) // a later slot
		if got := e.count(1, debit(limit, "a", 2)); got != 0 {
			t.Fatal("7 of 6 passed")
		}
		e.broken.Store(true)
		for _, p := range held {
			p.Settle(false)
		}
		synctest.Wait()
		if !e.committer.degraded.Load() {
			t.Fatal("there is no outage")
		}
		if got := e.count(9, debit(limit, "a", 1)); got != 0 {
			t.Errorf("%d passed in the outage, and the 3 that are 40 %% have counted before", got)
		}
		e.broken.Store(false)
		time.Sleep(time.Minute)
		if got := e.count(9, debit(limit, "a", 1)); got != 3 {
			t.Errorf("%d passed after the outage, want the 3 that are left", got)
		}
	})
}

// Units that come back during an outage are given back after it, and clients that were refused for
// lack of them are admitted.
func TestHeldUnitsComeBackDuringAnOutage(t *testing.T) {
	slotted(t, 5, func(t *testing.T, e *faulty, limit *Limit) {
		held := e.hold(5, limit, "a")
		time.Sleep(2 * time.Hour) // a later slot
		if got := e.count(1, debit(limit, "a", 1)); got != 0 {
			t.Fatal("a sixth passed")
		}
		e.broken.Store(true)
		e.ask(debit(limit, "b", 1))
		if !e.committer.degraded.Load() {
			t.Fatal("there is no outage")
		}
		for _, p := range held {
			p.Settle(false)
		}
		e.broken.Store(false)
		time.Sleep(time.Minute)
		if used := e.disk.used(limit, "a", e.clock.Now()); used != 0 {
			t.Errorf("%d are charged after the outage, want none", used)
		}
		if got := e.count(9, debit(limit, "a", 1)); got != 5 {
			t.Errorf("%d passed after the outage, want 5", got)
		}
		if c := e.table.find(limit.ID, []byte("a")); !c.exists() || c.rare().holds != nil || c.rare().local != nil || c.rare().inFlight > 0 {
			t.Error("the key is still held in memory")
		}
	})
}

// Units that came back during an outage are not given back once the store has forgotten them.
func TestPostponedUnitsAreForgotten(t *testing.T) {
	slotted(t, 5, func(t *testing.T, e *faulty, limit *Limit) {
		held := e.hold(5, limit, "a")
		time.Sleep(2 * time.Hour)
		e.count(1, debit(limit, "a", 1))
		e.broken.Store(true)
		e.ask(debit(limit, "b", 1))
		for _, p := range held {
			p.Settle(false)
		}
		e.committer.eraser.forgetCell(e.table.find(limit.ID, []byte("a")))
		e.broken.Store(false)
		time.Sleep(time.Minute)
		if used := e.disk.used(limit, "a", e.clock.Now()); used != 5 {
			t.Errorf("%d are charged, want the 5 that were before", used)
		}
	})
}

// A closed engine gives back its postponed leases.
func TestPostponedUnitsAreGivenBackOnClose(t *testing.T) {
	slotted(t, 5, func(t *testing.T, e *faulty, limit *Limit) {
		held := e.hold(5, limit, "a")
		time.Sleep(2 * time.Hour)
		e.count(1, debit(limit, "a", 1))
		e.broken.Store(true)
		for _, p := range held {
			p.Settle(false)
		}
		synctest.Wait()
		e.broken.Store(false)
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if used := e.disk.used(limit, "a", e.clock.Now()); used != 0 {
			t.Errorf("%d are charged after the end, want none", used)
		}
	})
}
