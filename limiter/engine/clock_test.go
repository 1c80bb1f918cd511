package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// What a step of the wall clock may do to a limit: nothing that the time it tells
// wouldn't do, except that counts from a future beyond one window are not
// believed after a restart.
func TestClockSteps(t *testing.T) {
	const day = 24 * time.Hour
	const window, slot = 30 * day, 30 * day / 60
	for _, algorithm := range algorithms {
		for _, c := range []struct {
			by      time.Duration
			restart bool
			refill  int
		}{
			{+time.Hour, false, 0}, {+time.Hour, true, 0},
			{-time.Hour, false, 0}, {-time.Hour, true, 0},
			{+3650 * day, false, 6}, {+3650 * day, true, 6},
			{-3650 * day, false, 0}, {-3650 * day, true, 6},
		} {
			t.Run(fmt.Sprintf("%v %v restart=%v", algorithm, c.by, c.restart), func(t *testing.T) {
				limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 6, Window: window})
				clock := newFakeClock()
				clock.wall.Add(int64(window/2 + slot/2 - time.Duration(clock.wall.Load())%window)) // far from an edge
				f := startOn(t, newDisk(), clock)
				check := func(want int) {
					t.Helper()
					if got := f.count(10, draw(limit, "a", 1)); got != want {
						t.Errorf("%d passed, want %d", got, want)
					}
					longest := window + slot + min(c.by.Abs(), window)
					if d := f.ask(draw(limit, "a", 1)); d.Retry <= 0 || d.Retry > longest {
						t.Errorf("told to wait for %v, want at most %v", d.Retry, longest)
					}
				}
				check(6)
				clock.wall.Add(int64(c.by))
				clock.advance(time.Millisecond) // by when it is noticed
				if c.restart {
					f.Close(context.Background())
					f = startOn(t, f.disk, clock)
				}
				check(c.refill)
				clock.advance(window + slot + min(c.by.Abs(), window))
				check(6)
			})
		}
	}
}
