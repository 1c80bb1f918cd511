package engine

import (
	"fmt"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

const (
	simSteps = 200 // per seed
	// shortSeeds is the number of seeds for -short, which runs with the race detector.
	shortSeeds = 12
)

// withoutRaces skips a test with -short, which runs with the race detector. The test sends many
// requests one after the other, and adds no interaction of goroutines that other tests lack.
func withoutRaces(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("sends many requests, one after the other")
	}
}

// simulated is a world made from a seed.
type simulated interface {
	step()
	end()             // checks the final state
	traced() []string // the log of events
}

// simulate runs the steps of worlds in virtual time, in a subtest for each seed. It stops after the
// first failure.
func simulate[W simulated](t *testing.T, seeds int, begin func(t *testing.T, seed uint64) W) {
	if testing.Short() {
		seeds = min(seeds, shortSeeds)
	}
	for seed := 1; seed <= seeds && !t.Failed(); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { live(t, begin(t, uint64(seed))) })
		})
	}
	if !t.Failed() {
		proof.Figure(t, "%d seeds of %d steps", seeds, simSteps)
	}
}

// live runs the steps of a world.
func live(t *testing.T, w simulated) {
	for i := 0; i < simSteps && !t.Failed(); i++ {
		w.step()
	}
	w.end()
	if !t.Failed() {
		return
	}
	lines := w.traced()
	for _, line := range lines[max(0, len(lines)-60):] {
		t.Log(line)
	}
}
