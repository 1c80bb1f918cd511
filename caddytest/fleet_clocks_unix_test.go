//go:build unix

package caddytest

import (
	"maps"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/admissions"
	"github.com/caddy-tally/caddy-tally/internal/testing/wrongclock"
)

// testClocks sets the machines' clocks while limits are used.
func (f *fleet) testClocks() {
	clocks, steps := slices.Clone(fleetClocks), 2
	if isWhole() {
		steps = len(clocks)
	}
	f.testTimes("machines", steps, func(int) {
		clocks = append(clocks[1:], clocks[0])
		for i, m := range f.machines {
			m.step(clocks[i] - m.wrong)
		}
	})
}

// testServerClock sets the server's clock meanwhile, for its process alone.
func (f *fleet) testServerClock() {
	if f.server.clock == nil {
		f.t.Skip(wrongclock.Missing)
	}
	steps := []time.Duration{5 * time.Second, -5 * time.Second, 10 * time.Minute, -10 * time.Minute, 0}
	if !isWhole() {
		steps = steps[2:4]
	}
	f.testTimes("server", len(steps), func(step int) {
		if err := f.server.clock.Set(steps[step]); err != nil {
			f.t.Fatal(err)
		}
	})
}

// testTimes has clocks set, step by step, while limits of several windows are used. The limits
// hold, and after each step clients are soon admitted again.
func (f *fleet) testTimes(whose string, steps int, set func(step int)) {
	zones := []string{"second", "tenth", "minute", "hour"}
	key := "clocks of " + whose
	losses := f.losses()
	pause := 2 * time.Millisecond
	if !isWhole() {
		pause *= 15 // still more than the limits let through
	}
	l := f.load(8, key, pause, zones...)
	waitFor(f.t, "limits to be used up", func() bool { return l.count("second", key) >= int(fleetZones["second"].Amount) })
	for step := range steps {
		set(step)
		f.awaitWindow(l, "second", key)
		if isWhole() {
			f.awaitWindow(l, "tenth", key)
		}
	}
	if isWhole() {
		f.awaitWindow(l, "minute", key)
	}
	l.stop()
	l.check(f.t)
	lost := !maps.Equal(f.losses(), losses)
	f.t.Logf("%s: %v; the store has lost writes: %v", key, l, lost)
	for _, zone := range zones {
		f.checkTimes(l, zone, key, lost)
	}
}

// awaitWindow waits until more was admitted than one window has.
func (f *fleet) awaitWindow(l *fleetLoad, zone, key string) {
	f.t.Helper()
	limit, before, began := fleetZones[zone], l.count(zone, key), time.Now()
	waitUpTo(f.t, 3*patience, "limits to let clients in again", func() bool { return l.count(zone, key) > before+int(limit.Amount) })
	f.t.Logf("%s: %v let a whole window through within %v", key, limit, time.Since(began).Round(time.Millisecond))
}

// checkTimes checks one zone. A Redis whose clock is set ahead forgets counts, which is an outage of
// a moment, in which each machine has a part of the degraded limit.
func (f *fleet) checkTimes(l *fleetLoad, zone, key string, lost bool) {
	limit, admitted, wait := fleetZones[zone], l.admittedOf(zone, key), l.longest(zone, key)
	fullest, shut := limit.Fullest(admitted), longestShut(admitted)
	f.t.Logf("%s: %v: %d in all, %d in the fullest window; shut for %v at most, told to wait for %ds at most",
		key, limit, len(admitted), fullest, shut.Round(time.Millisecond), wait)
	most := limit.Amount
	if lost {
		most += limit.Amount * degradedPercent / 100
	}
	if fullest > most {
		f.t.Errorf("%s: %v admitted %d in a window", key, limit, fullest)
	}
	longest := limit.Window + limit.Window/60 + limit.Window/2000 + time.Second
	if retry := time.Duration(wait) * time.Second; retry > longest+min(limit.Window/60, longestSpread)+time.Second {
		f.t.Errorf("%s: %v told a client to wait for %v", key, limit, retry)
	}
	if isWhole() && zone != "hour" && shut > longest+time.Second {
		f.t.Errorf("%s: %v was shut for %v", key, limit, shut)
	}
}

// degradedPercent is the part of a limit that all machines together admit by memory.
const degradedPercent = 40

// longestShut returns the longest time between two requests that were admitted.
func longestShut(log []admissions.Admission) (longest time.Duration) {
	for i := 1; i < len(log); i++ {
		longest = max(longest, time.Duration(log[i].Answered-log[i-1].Answered))
	}
	return longest
}
