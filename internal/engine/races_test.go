package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// gate is an engine whose store lets a batch through when the test says so.
type gate struct {
	*fixture
	arrived chan int      // the size of a batch that is at the gate
	pass    chan struct{} // lets it through
}

// atGate runs f in a bubble of virtual time, where every goroutine except the test's stands still
// when synctest.Wait returns.
func atGate(t *testing.T, f func(t *testing.T, g *gate)) {
	bubble.Test(t, func(t *testing.T) {
		g := &gate{arrived: make(chan int), pass: make(chan struct{})}
		store := &hookedStore{disk: newDisk(), before: func(claims []storage.Claim) error {
			g.arrived <- len(claims)
			<-g.pass
			return nil
		}}
		g.fixture = newFixture(t, func(o *Options) {
			o.Clock = nil
			o.Open = func(context.Context) (storage.Store, error) { return store, nil }
		})
		g.disk, g.store = store.disk, store
		synctest.Wait()
		f(t, g)
		go g.letAll(t.Context())
		g.Close(context.Background())
	})
}

// letAll lets every batch through from now on.
func (g *gate) letAll(ctx context.Context) {
	for {
		select {
		case <-g.arrived:
			g.pass <- struct{}{}
		case <-ctx.Done():
			return
		}
	}
}

// let lets one batch through and waits for all its effects. It returns the number of its claims.
func (g *gate) let() int {
	n := <-g.arrived
	g.pass <- struct{}{}
	synctest.Wait()
	return n
}

// begin sends a request on a goroutine, and returns when it waits or is decided.
func (g *gate) begin(ctx context.Context, debits ...Debit) <-chan Decision {
	decided := make(chan Decision, 1)
	go func() { decided <- g.Decide(ctx, nil, debits) }()
	synctest.Wait()
	return decided
}

// granted reports whether a request was allowed by a grant of the store. If the store never
// answers, memory decides in the end: time passes by itself here.
func granted(d Decision) bool { return d.Allowed && !d.Degraded }

// A claim that is under way when its key becomes blocked is answered by its own grant.
func TestClaimInFlightWhileBlocked(t *testing.T) {
	limit := sliding(t, 2, time.Hour)
	atGate(t, func(t *testing.T, g *gate) {
		ctx := context.Background()
		first := g.begin(ctx, debit(limit, "a", 2)) // in the batch at the gate
		second := g.begin(ctx, debit(limit, "a", 1))
		third := g.begin(ctx, debit(limit, "a", 2)) // all in the next one
		if n := g.let(); n != 1 {
			t.Fatalf("%d claims in the first batch, want 1", n)
		}
		if d := <-first; !granted(d) {
			t.Errorf("the first: %+v", d)
		}
		g.let()
		for _, d := range []Decision{<-second, <-third} {
			if d.Reason != OverLimit || d.Retry <= 0 || d.Degraded {
				t.Errorf("beyond the limit: %+v", d)
			}
		}
		if d := g.Decide(ctx, nil, []Debit{debit(limit, "a", 1)}); d.Reason != Blocked {
			t.Errorf("afterwards: %+v, want blocked", d)
		}
	})
}

// A grant for a small cost does not unblock larger ones, and is not lost for
// their block.
func TestGrantWhileBlocked(t *testing.T) {
	limit := sliding(t, 3, time.Hour)
	atGate(t, func(t *testing.T, g *gate) {
		ctx := context.Background()
		first := g.begin(ctx, debit(limit, "a", 2)) // in the batch at the gate
		large := g.begin(ctx, debit(limit, "a", 2))
		small := g.begin(ctx, debit(limit, "a", 1)) // both in the next one
		g.let()
		g.let()
		if d := <-first; !granted(d) {
			t.Errorf("the first: %+v", d)
		}
		if d := <-large; d.Reason != OverLimit || d.Degraded {
			t.Errorf("beyond the limit: %+v", d)
		}
		if d := <-small; !granted(d) {
			t.Errorf("the last unit: %+v", d)
		}
		if d := g.Decide(ctx, nil, []Debit{debit(limit, "a", 2)}); d.Reason != Blocked {
			t.Errorf("afterwards: %+v, want blocked", d)
		}
	})
}

// Units granted to a request whose client has gone are for the next one.
func TestGrantAfterTheContextEnded(t *testing.T) {
	limit := sliding(t, 1, time.Hour)
	atGate(t, func(t *testing.T, g *gate) {
		ctx, cancel := context.WithCancel(context.Background())
		gone := g.begin(ctx, debit(limit, "a", 1))
		cancel()
		synctest.Wait()
		if d := <-gone; d.Reason != Abandoned || d.Allowed {
			t.Fatalf("a request whose client has gone: %+v", d)
		}
		g.let()
		if d := g.Decide(context.Background(), nil, []Debit{debit(limit, "a", 1)}); !granted(d) {
			t.Errorf("the next request: %+v, want the unit that was granted and not used", d)
		}
		if used := g.disk.used(limit, "a", g.clock.Now()); used != 1 {
			t.Errorf("%d charged, want 1", used)
		}
	})
}

// The lease of an earlier slot is given back when the key is granted one in a later slot.
func TestGrantsOfTwoSlots(t *testing.T) {
	limit := sliding(t, 1000, time.Minute)
	atGate(t, func(t *testing.T, g *gate) {
		first := g.begin(context.Background(), debit(limit, "a", 1))  // in the batch at the gate
		second := g.begin(context.Background(), debit(limit, "a", 1)) // in the next one
		time.Sleep(2 * time.Second)
		go g.letAll(t.Context())
		for _, d := range []Decision{<-first, <-second} {
			if !granted(d) {
				t.Errorf("far from the limit: %+v", d)
			}
		}
		g.Close(context.Background())
		if used := g.disk.used(limit, "a", g.clock.Now()); used != 2 {
			t.Errorf("%d charged in the end, want the 2 admitted", used)
		}
	})
}

// A key with a claim under way is not evicted; its grant is not lost.
func TestEvictionDuringAClaim(t *testing.T) {
	limit := sliding(t, 1, time.Hour)
	atGate(t, func(t *testing.T, g *gate) {
		g.table.Max.Store(1)
		kept := g.begin(context.Background(), debit(limit, "a", 1))
		cell := g.table.find(limit.ID, []byte("a"))
		var others []<-chan Decision
		for i := range 1000 {
			others = append(others, g.begin(context.Background(), debit(limit, fmt.Sprint(i), 1)))
		}
		if g.table.find(limit.ID, []byte("a")) != cell {
			t.Fatal("a key with a claim under way was evicted")
		}
		g.let()
		if d := <-kept; !granted(d) {
			t.Errorf("its request: %+v", d)
		}
		g.let()
		for i, other := range others {
			if d := <-other; !granted(d) {
				t.Errorf("request of key %d: %+v", i, d)
			}
		}
	})
}

// Idle keys with a claim under way stay in memory as well, however long the claim takes.
func TestCleaningDuringAClaim(t *testing.T) {
	limit := sliding(t, 1000, time.Hour)
	atGate(t, func(t *testing.T, g *gate) {
		kept := g.begin(context.Background(), debit(limit, "a", 1))
		cell := g.table.find(limit.ID, []byte("a"))
		for range 3 {
			g.table.sweep(g.clock.Now(), func(<-chan struct{}) { t.Error("gave back its lease") }, func(int) {})
		}
		if g.table.find(limit.ID, []byte("a")) != cell {
			t.Error("a key with a claim under way was forgotten")
		}
		g.let()
		if d := <-kept; !granted(d) {
			t.Errorf("its request: %+v", d)
		}
	})
}

// A close answers batches under way and waiting requests, and gives back the rest.
func TestCloseDuringAClaim(t *testing.T) {
	limit := sliding(t, 1000, time.Hour) // grants include units for later
	atGate(t, func(t *testing.T, g *gate) {
		first := g.begin(context.Background(), debit(limit, "a", 1))
		second := g.begin(context.Background(), debit(limit, "a", 1))
		closed := make(chan error, 1)
		go func() { closed <- g.Close(context.Background()) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Fatal("closed with a claim under way")
		default:
		}
		g.let() // the first batch
		g.let() // the second
		g.let() // the returned leases
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		for _, d := range []Decision{<-first, <-second} {
			if !granted(d) {
				t.Errorf("a request that waited: %+v", d)
			}
		}
		if used := g.disk.used(limit, "a", g.clock.Now()); used != 2 {
			t.Errorf("%d charged after the close, want the 2 admitted", used)
		}
	})
}

// A limit that is lowered while a claim for the old amount is under way applies to all later
// decisions.
func TestReloadDuringAClaim(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			old := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 10_000, Window: 24 * time.Hour})
			young := old.with(t, 3)
			atGate(t, func(t *testing.T, g *gate) {
				first := g.begin(context.Background(), debit(old, "a", 1))
				var others []<-chan Decision
				for range 5 {
					others = append(others, g.begin(context.Background(), debit(young, "a", 1)))
				}
				g.let()
				if d := <-first; !granted(d) {
					t.Errorf("under the old amount: %+v", d)
				}
				go g.letAll(t.Context())
				allowed := 0
				for _, other := range others {
					if d := <-other; granted(d) {
						allowed++
					}
				}
				if allowed != 2 {
					t.Errorf("%d passed under the new amount of 3 with 1 used, want 2", allowed)
				}
			})
		})
	}
}

// Requests with different amounts that wait for one batch are decided by their own.
func TestReloadWhileClaimsWait(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			old := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 10, Window: 24 * time.Hour})
			young := old.with(t, 3)
			atGate(t, func(t *testing.T, g *gate) {
				ctx := context.Background()
				first := g.begin(ctx, debit(old, "a", 3)) // in the batch at the gate
				second := g.begin(ctx, debit(young, "a", 1))
				third := g.begin(ctx, debit(old, "a", 1)) // both in the next one
				g.let()
				g.let()
				if d := <-first; !granted(d) {
					t.Errorf("under the old amount: %+v", d)
				}
				if d := <-second; d.Reason != OverLimit || d.Degraded {
					t.Errorf("beyond the new amount: %+v", d)
				}
				if d := <-third; !granted(d) {
					t.Errorf("still under the old amount: %+v", d)
				}
			})
		})
	}
}

// Units that are granted while a claim for the same key is under way count for that claim: it is
// not refused for lack of the key's own lease.
func TestRefusalWhileUnitsAreHeld(t *testing.T) {
	limit := sliding(t, 10, time.Hour)
	other := sliding(t, 1, time.Hour)
	atGate(t, func(t *testing.T, g *gate) {
		ctx := context.Background()
		g.begin(ctx, debit(other, "z", 1)) // keeps the gate busy
		var waiting []<-chan Decision
		for range 10 {
			waiting = append(waiting, g.begin(ctx, debit(limit, "a", 1), debit(other, "a", 1)))
		}
		<-g.arrived
		g.pass <- struct{}{}
		<-g.arrived // all ten of the limit are about to be granted
		late := g.begin(ctx, debit(limit, "a", 1))
		g.pass <- struct{}{}
		go g.letAll(t.Context())
		passed := 0
		for _, w := range waiting {
			if granted(<-w) {
				passed++
			}
		}
		if d := <-late; passed != 1 || !granted(d) {
			t.Errorf("%d passed both limits, want 1; a request of the first alone: %+v, want allowed: 9 are left", passed, d)
		}
	})
}

// If the store refuses a request because of units charged ahead, and these are spent meanwhile, the
// retry time covers the time for which they are remembered once they are settled.
func TestRefusalWhileSpentUnitsAreAhead(t *testing.T) {
	limit := sliding(t, 64, time.Minute)
	atGate(t, func(t *testing.T, g *gate) {
		ctx := context.Background()
		g.begin(ctx, debit(limit, "a", 1))
		g.let()
		time.Sleep(10 * time.Second) // so the key is slow
		second := g.begin(ctx, debit(limit, "a", 1))
		dear := g.begin(ctx, debit(limit, "a", 64)) // in the batch after that
		g.let()
		third := g.begin(ctx, debit(limit, "a", 1))
		if d := <-second; !granted(d) {
			t.Fatalf("the second request: %+v", d)
		}
		if d := <-third; !granted(d) || d.Waited > 0 {
			t.Fatalf("the third request: %+v, want it to spend the lease of the second", d)
		}
		go g.letAll(t.Context())
		if d, most := <-dear, limit.Window()+limit.Window()/60; d.Allowed || d.Retry > most {
			t.Errorf("3 of 64 are spent, and 64 are refused: %+v, want at most %v to wait", d, most)
		}
	})
}

// Of two requests that wait for one claim, memory decides about the first, which can't wait any
// longer. The grant pays for that, and the second has to claim again.
func TestGrantPaysForWhoDidNotWait(t *testing.T) {
	limit, other := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 10, Window: time.Hour}), sliding(t, 10, time.Hour)
	atGate(t, func(t *testing.T, g *gate) {
		ctx := context.Background()
		used := limiter.Claim{Now: g.clock.Now(), Want: 9}
		g.disk.claim(limit, "a", used)
		time.Sleep(g.opts.CleanupInterval / 2)
		g.begin(ctx, debit(other, "z", 1)) // in the batch at the gate
		first := g.begin(ctx, debit(limit, "a", 1))
		time.Sleep(time.Second)
		second := g.begin(ctx, debit(limit, "a", 1)) // both in the next one
		g.let()
		time.Sleep(g.opts.StoreTimeout - time.Second/2)
		if d := <-first; !d.Allowed || !d.Degraded {
			t.Fatalf("the first: %+v, want it allowed from memory", d)
		}
		go g.letAll(t.Context())
		if d := <-second; d.Allowed || d.Retry <= 0 {
			t.Errorf("the second: %+v, want a refusal with a time to retry: the one unit was the first's", d)
		}
	})
}

// Units that memory admits while a grant is under way are paid from that grant, even if another
// claim for the key is made before it arrives.
func TestDebtsWhileAGrantIsUnderWay(t *testing.T) {
	limit, other := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 3, Window: time.Hour}), sliding(t, 10, time.Hour)
	atGate(t, func(t *testing.T, g *gate) {
		ctx := context.Background()
		time.Sleep(g.opts.CleanupInterval / 2)
		g.begin(ctx, debit(other, "z", 1)) // in the batch at the gate
		late := g.begin(ctx, debit(limit, "a", 1))
		time.Sleep(time.Second)
		second, third := g.begin(ctx, debit(limit, "a", 1)), g.begin(ctx, debit(limit, "a", 1)) // all in the next one
		g.let()
		time.Sleep(g.opts.StoreTimeout - time.Second/2)
		if d := <-late; !d.Allowed || !d.Degraded {
			t.Fatalf("the first: %+v, want it allowed from memory", d)
		}
		dear := g.begin(ctx, debit(limit, "a", 2)) // in the one after that
		g.let()
		for _, d := range []Decision{<-second, <-third} {
			if !granted(d) {
				t.Errorf("one of three units: %+v", d)
			}
		}
		last := g.begin(ctx, debit(limit, "a", 1))
		go g.letAll(t.Context())
		for _, d := range []Decision{<-dear, <-last} {
			if d.Allowed {
				t.Errorf("beyond the limit: %+v", d)
			}
		}
	})
}
