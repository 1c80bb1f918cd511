//go:build unix

package caddytest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
)

// testNetwork has connections between the Caddys and their server be cut and slow.
func (f *fleet) testNetwork() {
	f.testCuts(proof.Times(2*len(testserver.Cuts()), 1000))
	delays := []time.Duration{time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond}
	if !isWhole() {
		delays = delays[1:2]
	}
	for _, d := range delays {
		f.all(func(m *fleetMachine) { m.network.SetDelay(d) })
		f.spend(fmt.Sprint("with a delay of ", d), 10)
	}
	f.all(func(m *fleetMachine) { m.network.SetDelay(0) })
}

// testSilence has the network drop what is sent.
func (f *fleet) testSilence() {
	all := func(do func(*testserver.Proxy)) func() {
		return func() { f.all(func(m *fleetMachine) { do(m.network) }) }
	}
	none := all(func(p *testserver.Proxy) { p.Set(testserver.None) })
	if isWhole() {
		f.testOutage("a black hole", all(func(p *testserver.Proxy) { p.Set(testserver.BlackHole) }), none)
		f.testOutage("lost packets", all(func(p *testserver.Proxy) { p.Set(testserver.Stall) }), none)
	}
	all((*testserver.Proxy).HalfOpen)()
	l := newLedger()
	f.askAround(l, "half-open", 20)
	all((*testserver.Proxy).Reset)()
	f.awaitUse()
	f.askAround(l, "half-open", 20)
	f.checkSpent(l, "half-open", 20, degradedPercent)
}

// testCuts cuts connections, each in one of all ways, while limits are used up.
func (f *fleet) testCuts(most int) {
	var cuts atomic.Int64
	kinds := testserver.Cuts()
	f.all(func(m *fleetMachine) {
		m.network.SetCut(func() testserver.Cut {
			if rand.IntN(15) != 0 || cuts.Load() >= int64(most) {
				return testserver.Pass
			}
			return kinds[cuts.Add(1)%int64(len(kinds))]
		})
	})
	defer f.all(func(m *fleetMachine) { m.network.SetCut(nil) })
	for round := 0; cuts.Load() < int64(most); round++ {
		f.spend(fmt.Sprint("cuts ", round), 20)
	}
	proof.Figure(f.t, "%d connections were cut", cuts.Load())
}

// spend uses up the limits of some clients on all machines, and checks that each got what the limit
// says and not one request more.
func (f *fleet) spend(what string, clients int) {
	f.t.Helper()
	l := newLedger()
	f.askAround(l, what, clients)
	f.checkSpent(l, what, clients, 0)
}

// askAround has some clients ask each machine twice.
func (f *fleet) askAround(l *ledger, what string, clients int) {
	f.each(clients, func(i int) {
		for range 2 {
			for _, m := range rand.Perm(len(f.machines)) {
				f.machines[m].ask(l, "few", fewKey(what, i))
			}
		}
	})
}

func fewKey(what string, i int) string { return fmt.Sprint(what, ", client ", i) }

// checkSpent checks that each client got what the limit says, or up to so many percent more.
func (f *fleet) checkSpent(l *ledger, what string, clients, more int) {
	f.t.Helper()
	l.check(f.t)
	f.t.Logf("%s: %v", what, l)
	want := int(fleetZones["few"].Amount)
	for i := range clients {
		if n := l.count("few", fewKey(what, i)); n < want || n > want+want*more/100 {
			f.t.Errorf("%s: client %d was admitted %d times of %d", what, i, n, want)
		}
	}
}

// each does something for each number below n, several at once.
func (f *fleet) each(n int, do func(i int)) {
	var group sync.WaitGroup
	var next atomic.Int64
	for range 8 {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	group.Wait()
}
