package caddytest

import (
	"fmt"
	"testing"
	"time"
)

const day = 24 * time.Hour

// A clock that is set wrong, or right again, shuts nobody out for longer than a
// window and the step, and refills nothing but what the time that it tells would,
// or what was counted in a future too far away to be true.
func TestClockSteps(t *testing.T) {
	const window, slot = 30 * day, 30 * day / 60
	conf := config(`
		zone sliding {
			match /sliding
			limit 6/30d
		}
		zone fixed {
			match /fixed
			limit 6/30d fixed
		}
		zone bucket {
			match /bucket
			limit 6/30d token_bucket
		}`)
	for _, c := range []struct {
		by      time.Duration
		restart bool
		refill  int
	}{
		{+time.Hour, false, 0},
		{-time.Hour, false, 0},
		{+3650 * day, false, 6},
		{-3650 * day, false, 0}, // time goes on in the engine
		{+time.Hour, true, 0},
		{-time.Hour, true, 0},
		{+3650 * day, true, 6},
		{-3650 * day, true, 6},
	} {
		t.Run(fmt.Sprintf("%v restart=%v", c.by, c.restart), func(t *testing.T) {
			s := newShifted(t, conf)
			s.step(window/2 + slot/2 - time.Duration(time.Now().UnixNano())%window) // far from an edge of either
			s.start()
			check := func(want int) {
				t.Helper()
				for _, path := range []string{"/sliding", "/fixed", "/bucket"} {
					s.wantPassed(want, 8, path)
					told := time.Duration(s.get(path).retryAfter()) * time.Second
					if longest := window + slot + min(c.by.Abs(), window); told < time.Second || told > longest {
						t.Errorf("Retry-After of %s is %v, want at most %v", path, told, longest)
					}
				}
			}
			check(6)
			s.step(c.by)
			if c.restart {
				s.stop()
				s.start()
			}
			check(c.refill)
			s.pass(window + slot + min(c.by.Abs(), window))
			check(6)
		})
	}
}

// However often a clock is set, each step refills a limit once at most.
func TestClockThatJumpsBackAndForth(t *testing.T) {
	s := newShifted(t, config("zone z {\nlimit 6/30d\n}"))
	s.start()
	passed, steps := s.passed(10, "/"), 1
	for _, by := range []time.Duration{-day, +day, -3650 * day, +3650 * day, -time.Hour, +40 * day, -40 * day} {
		s.step(by)
		steps++
		passed += s.passed(10, "/")
		if steps%2 == 0 {
			s.kill()
			s.start()
			passed += s.passed(10, "/")
		}
	}
	if passed > 6*steps {
		t.Errorf("%d passed with %d steps, the limit is 6", passed, steps)
	}
	s.pass((31 + 40) * day) // a window, and the longest step less than which counts are believed
	s.wantPassed(6, 8, "/")
}
