package engine

import (
	"fmt"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/bubble"
)

const (
	simSteps = 200 // of a seed
	// shortSeeds is how many seeds are enough for -short, with which the race detector looks on.
	shortSeeds = 12
)

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

// simulate takes the steps of worlds in virtual time, in a subtest for each seed. It ends with the
// first that fails.
func simulate[W simulated](t *testing.T, seeds int, begin func(t *testing.T, seed uint64) W) {
	if testing.Short() {
		seeds = min(seeds, shortSeeds)
	}
	for seed := 1; seed <= seeds && !t.Failed(); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { live(t, begin(t, uint64(seed))) })
		})
	}
}

// live takes the steps of a world.
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
