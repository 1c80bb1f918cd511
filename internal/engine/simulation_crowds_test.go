package engine

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// TestSimulationOfCrowds sends crowds of requests with mixed costs, all of one key and over several
// limits, to one engine, in virtual time and determined by a seed. Some are refused by one limit
// and have claimed from the others. Cells are evicted in between, amounts change, and goroutines
// without locks may be delayed by some milliseconds when they read the clock. Beside the promises
// of TestSimulation, this holds in every quiet moment: no key is blocked that the store and its own
// lease have enough for, now or before the block ends.
//
// Allows: A reload that changes a token bucket's amount; A window is a little longer than it says.
func TestSimulationOfCrowds(t *testing.T) {
	simulate(t, proof.Times(9, 5000), newCrowds)
}

// crowds is a world of one process and its crowds of requests.
type crowds struct {
	world
	p       *process
	pausing atomic.Bool // readers of the clock may be delayed

	mu     sync.Mutex
	chance *rand.Rand // guarded by mu: of pauses
}

// longestPause is longer than the time in which a batch fills up.
const longestPause = 3 * gatherFor

func newCrowds(t *testing.T, seed uint64) *crowds {
	w := &crowds{
		world:  world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), disk: newDisk(), tracer: newTracer()},
		chance: rand.New(rand.NewPCG(seed, 2)),
	}
	for i := range 2 + w.rng.IntN(3) {
		window := []time.Duration{time.Second, 10 * time.Second, 10 * time.Minute, 24 * time.Hour}[w.rng.IntN(4)]
		amount := []int64{1, 5, 10, 30, 100, 1000}[w.rng.IntN(6)]
		algorithm := algorithms[(i+w.rng.IntN(2))%len(algorithms)]
		l := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: amount, Window: window})
		w.limits = append(w.limits, &simLimit{now: l, most: amount, fastest: amount, admitted: map[string][]admission{}})
	}
	w.start()
	w.p = w.procs[0]
	w.p.wall.pause = w.pause
	return w
}

// step makes one event happen.
func (cr *crowds) step() {
	switch cr.rng.IntN(16) {
	case 0, 1, 2, 3:
		cr.crowd(2 + cr.rng.IntN(30))
	case 4:
		cr.crowd(1)
	case 10:
		cr.let(func() { cr.pass(time.Duration(cr.rng.Int64N(int64(time.Second)))) })
	case 11:
		cr.let(func() {
			cr.pass(time.Duration(cr.rng.Int64N(int64(cr.limits[cr.rng.IntN(len(cr.limits))].now.Window()))))
		})
	case 12:
		cr.reload()
	case 13:
		cr.let(func() { cr.p.table.sweep(cr.p.clock.Now(), func(<-chan struct{}) {}, func(int) {}) })
	case 14, 15:
		cr.quiet()
	default:
		cr.let(func() { cr.p.goOn() })
		cr.checkBlocks()
	}
	cr.collect()
}

// let does something while readers of the clock may be delayed.
func (cr *crowds) let(f func()) {
	cr.pausing.Store(true)
	f()
	synctest.Wait()
	cr.pausing.Store(false)
}

// crowd sends some concurrent requests. Often all have the same cost.
func (cr *crowds) crowd(n int) {
	key := simKeys[cr.rng.IntN(len(simKeys))]
	alike := cr.rng.IntN(2) == 0
	perm := cr.rng.Perm(len(cr.limits))[:1+cr.rng.IntN(len(cr.limits))]
	cr.let(func() {
		for range n {
			dear := !alike && cr.rng.IntN(4) == 0
			if !alike {
				perm = cr.rng.Perm(len(cr.limits))[:1+cr.rng.IntN(len(cr.limits))]
			}
			a := &asked{decision: make(chan Decision, 1)}
			for _, i := range perm {
				cost := int64(1)
				if !alike {
					cost = cr.cost()
				}
				if dear {
					cost = cr.dear(cr.limits[i].now.Capacity())
				}
				a.add(cr.limits[i], key, cost)
			}
			cr.note("asked for %s", a)
			cr.p.send(a)
		}
	})
}

// dear returns a cost that is often close to the capacity of a limit.
func (cr *crowds) dear(capacity int64) int64 {
	if cr.rng.IntN(2) == 0 {
		return cr.cost()
	}
	return capacity - cr.rng.Int64N(cr.rng.Int64N(capacity)+1)
}

// pause delays a reader of the clock, unless a lock is held: the reader itself may hold it. The
// other goroutines would wait for it, and time would stand still.
func (cr *crowds) pause() {
	if !cr.pausing.Load() || cr.locked() {
		return
	}
	cr.mu.Lock()
	d := time.Duration(cr.chance.Int64N(int64(3 * longestPause)))
	cr.mu.Unlock()
	if d < longestPause {
		time.Sleep(d)
	}
}

// locked reports whether a lock of the engine is held.
func (cr *crowds) locked() bool {
	if !cr.p.committer.queue.mu.TryLock() {
		return true
	}
	cr.p.committer.queue.mu.Unlock()
	for _, mu := range shardLocks(cr.p.table) {
		if !mu.TryLock() {
			return true
		}
		mu.Unlock()
	}
	held := false
	cr.p.table.each(func(c cell) {
		if held = held || !c.TryLock(); !held {
			c.Unlock()
		}
	})
	return held
}

// quiet lets all waiting or delayed requests be decided.
func (cr *crowds) quiet() {
	time.Sleep(longestPause)
	cr.world.quiet()
	if n := len(cr.p.asked); n > 0 {
		cr.t.Errorf("%d requests are not decided though nothing waits", n)
	}
}

// checkBlocks compares blocks with the units left.
func (cr *crowds) checkBlocks() {
	now := cr.p.clock.Now()
	cr.p.table.each(func(c cell) {
		c.Lock()
		defer c.Unlock()
		for b := c.blocks(); b != nil; b = b.older {
			if now < b.until {
				cr.checkBlockLocked(c, b, now)
				cr.checkBlockLocked(c, b, b.until-1)
			}
		}
	})
}

// checkBlockLocked claims the blocked cost from a copy of the disk's state.
func (cr *crowds) checkBlockLocked(c cell, b *block, at int64) {
	limit, err := c.limit().WithAmount(b.amount, 0)
	if err != nil {
		cr.t.Fatal(err)
	}
	state := cr.disk.stateOf(&Limit{ID: c.ID, Rate: limit}, c.key(), at)
	claim := limiter.Claim{Now: at, Min: b.cost, Want: b.cost, Return: c.leaseLocked()}
	if g := limit.Claim(&state, claim); !g.Refused(claim) {
		cr.t.Errorf("%v %d/%v %s: a cost of %d is blocked until %v, and free %v earlier: the lease is %+v, the state %+v",
			limit.Algorithm(), b.amount, limit.Window(), c.key(), b.cost, time.Unix(0, b.until).UTC(), time.Duration(b.until-at), c.leaseLocked(), state)
	}
}

// end waits for a quiet moment first.
func (cr *crowds) end() {
	cr.quiet()
	cr.checkBlocks()
	cr.world.end()
}
