//go:build unix

package caddytest

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// testServer has each fault befall the server.
func (f *fleet) testServer() {
	for _, fault := range f.server.faults {
		if fault.short || isWhole() {
			f.testFault(fault)
		}
	}
}

// testOutage is testFault for a fault of the network.
func (f *fleet) testOutage(name string, begin, end func()) {
	f.t.Helper()
	f.testFault(fleetFault{name: name, begin: begin, end: end})
}

// healsWithin is how long the store may be out of use after it could be used again.
const healsWithin = 2 * time.Second

// testFault uses up a limit on one machine and has a fault begin and end. All requests are answered.
// That machine refuses the key meanwhile, and all of them do afterwards, whatever was lost. Each
// machine logs an outage once, or not at all soon after another.
func (f *fleet) testFault(fault fleetFault) {
	f.t.Helper()
	switch {
	case fault.dead:
		f.restart(fault.save)
	case fault.save != nil:
		fault.save()
	}
	since, knows := f.lines(), f.machines[rand.IntN(len(f.machines))]
	l := f.load(4, "while "+fault.name, 5*time.Millisecond, "few", "tenth", "hammered")
	used := newLedger()
	ask := func(m *fleetMachine, times int) {
		for range times {
			m.ask(used, "few", fault.name)
		}
	}
	ask(knows, 7)
	losses := f.losses()
	fault.begin()
	if !fault.passing {
		f.all((*fleetMachine).awaitOutage)
	}
	ask(knows, 3)
	fault.end()
	ended := time.Now()
	if fault.passing && fault.loses {
		waitFor(f.t, "the loss to be noticed by all", func() bool {
			return !slices.ContainsFunc(f.machines, func(m *fleetMachine) bool { return m.losses() == losses[m] })
		})
	}
	f.awaitUse()
	healed := time.Since(ended)
	f.all(func(m *fleetMachine) { ask(m, 2) })
	l.stop()
	l.check(f.t)
	used.check(f.t)
	lines := f.lines()
	for i := range lines {
		lines[i] -= since[i]
	}
	proof.Figure(f.t, "%s: healed after %v; lines about outages: %v; %v", fault.name, healed.Round(time.Millisecond), lines, l)
	if n := used.count("few", fault.name); n != int(fleetZones["few"].Amount) {
		f.t.Errorf("%s: %d requests were admitted of a limit of %d", fault.name, n, fleetZones["few"].Amount)
	}
	for i, n := range lines {
		if n > 1 {
			f.t.Errorf("%s: machine %d has logged %d outages, want 1 at most", fault.name, i, n)
		}
	}
	if isWhole() && healed > healsWithin {
		f.t.Errorf("%s: the store was in use again after %v", fault.name, healed)
	}
	if _, _, slowest := l.total(); isWhole() && slowest > storeTimeout()+time.Second {
		f.t.Errorf("%s: a request took %v", fault.name, slowest)
	}
}

// losses returns how often each machine has noticed that the store had lost writes.
func (f *fleet) losses() map[*fleetMachine]string {
	losses := make(map[*fleetMachine]string)
	f.all(func(m *fleetMachine) { losses[m] = m.losses() })
	return losses
}

func (m *fleetMachine) losses() string {
	m.t.Helper()
	return m.metric("caddy_rate_limit_store_lost_writes_total")
}
