package caddytest

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

const day = 24 * time.Hour

// poking is a zone in which every path that is asked for has the database asked.
const poking = `
		zone poke {
			match path_regexp ^/poke/
			per key {http.request.uri.path}
			limit 1/1s
		}`

// poke has the database asked, which compares clocks.
func (s *shifted) poke() {
	s.t.Helper()
	s.poked++
	s.wantPassed(1, 1, fmt.Sprint("/poke/", s.poked))
}

// A wall clock that is set wrong, or right again, makes no difference, unless it is off
// by more than can heal: then the limits follow it after a while, at the price of one
// quota, and nobody is refused for longer than a window. A Caddy that is started
// meanwhile uses the time of the database.
func TestClockSteps(t *testing.T) {
	t.Parallel()
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
		}` + poking)
	for _, c := range []struct {
		by      time.Duration
		restart bool
		refill  int
	}{
		{+time.Hour, false, 0},
		{-time.Hour, true, 0},
		{-3650 * day, false, 6},
		{+3650 * day, true, 6},
		{-time.Hour, false, 0},
		{+time.Hour, true, 0},
		{+3650 * day, false, 6},
		{-3650 * day, true, 6},
	}[:min(proof.Times(4, 8), 8)] {
		t.Run(fmt.Sprintf("%v restart=%v", c.by, c.restart), func(t *testing.T) {
			t.Parallel()
			s := newShifted(t, conf)
			s.step(window/2 + slot/2 - time.Duration(time.Now().UnixNano())%window) // far from an edge of either
			s.start()
			check := func(want int) {
				t.Helper()
				for _, path := range []string{"/sliding", "/fixed", "/bucket"} {
					s.wantPassed(want, 8, path)
					retry := time.Duration(s.get(path).retryAfter()) * time.Second
					if longest := window + slot + window/2000 + longestSpread; retry < time.Second || retry > longest {
						t.Errorf("Retry-After of %s is %v, want at most %v", path, retry, longest)
					}
				}
			}
			check(6)
			s.step(c.by)
			if c.restart {
				s.stop()
				s.start()
			}
			s.poke()
			check(0)
			s.pass(2 * time.Hour)
			s.poke()
			check(c.refill)
			s.pass(window + slot + window/2000)
			check(6)
		})
	}
}

// However often a clock is set, each step refills a limit once at most, and those that
// do not last refill none.
func TestClockThatJumpsBackAndForth(t *testing.T) {
	t.Parallel()
	s := newShifted(t, config("zone z {\nmatch /\nlimit 6/30d\n}"+poking))
	s.start()
	s.wantPassed(6, 10, "/")
	for i, by := range []time.Duration{-day, +day, -3650 * day, +3650 * day, -time.Hour, +40 * day, -40 * day} {
		s.step(by)
		s.poke()
		if i%2 == 1 {
			s.kill()
			s.start()
		}
		s.wantPassed(0, 10, "/")
	}
	s.pass(31 * day)
	s.wantPassed(6, 8, "/")
}

// Two Caddys of which one was started while the clock was wrong go by one time: they
// admit what one would.
func TestClocksOfTwoProcesses(t *testing.T) {
	t.Parallel()
	for _, wrong := range []time.Duration{time.Hour, 300 * time.Millisecond, -time.Hour, 20 * time.Second}[:min(proof.Times(3, 4), 4)] {
		t.Run(wrong.String(), func(t *testing.T) {
			t.Parallel()
			s := newShifted(t, config(`
		zone sliding {
			match /sliding
			limit 10/10s
		}
		zone bucket {
			match /bucket
			limit 10/60s burst 10
		}`+poking))
			s.step(wrong)
			s.start()
			s.poke()
			s.step(-wrong)
			other := s.beside()
			other.start()
			for round := range proof.Times(4, 8) {
				passed := map[string]int{}
				for _, path := range []string{"/sliding", "/bucket"} {
					for range 12 {
						passed[path] += s.passed(1, path) + other.passed(1, path)
					}
				}
				if passed["/sliding"] > 10 || round > 0 && passed["/bucket"] > 4 {
					t.Errorf("after %d rounds of 11s, two Caddys together let %v pass, want 10 of a sliding window and 2 of a bucket", round, passed)
				}
				s.pass(11 * time.Second)
			}
		})
	}
}
