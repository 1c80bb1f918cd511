package engine

import (
	"flag"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/bubble"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "replay the simulation with this seed only")
	simSeeds = flag.Int("sim.seeds", 150, "how many seeds to simulate; make simulations takes five thousand")
	simSteps = flag.Int("sim.steps", 200, "how many steps to take with each seed")
)

// shortSeeds is how many seeds are enough for -short, with which the race detector looks on.
const shortSeeds = 15

// withoutRaces skips a test with -short, with which the race detector looks on: it sends many requests
// one after the other, and no other test's goroutines meet in another way.
func withoutRaces(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("sends many requests, one after the other")
	}
}

// simulated is a world that a seed has made.
type simulated interface {
	step()
	end()             // checks what holds in the end
	traced() []string // what has happened
}

// simulate takes the steps of worlds in virtual time, one for each seed; with -short, of short
// seeds at most. It ends with the first that fails, and tells how to see that again.
func simulate[W simulated](t *testing.T, seeds, short int, begin func(t *testing.T, seed uint64) W) {
	name, first, last := t.Name(), uint64(1), uint64(seeds)
	switch {
	case *simSeed != 0:
		first, last = *simSeed, *simSeed
	case testing.Short():
		last = uint64(min(seeds, short))
	}
	for seed := first; seed <= last && !t.Failed(); seed++ {
		bubble.Test(t, func(t *testing.T) {
			w := begin(t, seed)
			for i := 0; i < *simSteps && !t.Failed(); i++ {
				w.step()
			}
			w.end()
			if t.Failed() {
				t.Logf("replay: go test ./limiter/engine -run '^%s$' -sim.seed=%d -sim.steps=%d", name, seed, *simSteps)
				lines := w.traced()
				for _, line := range lines[max(0, len(lines)-60):] {
					t.Log(line)
				}
			}
		})
	}
}
