//go:build unix

package caddytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/admissions"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
)

// fleetZones are what clients of a fleet load, each at the path of its name. Keys are in a header.
var fleetZones = map[string]admissions.Limit{
	"hammered": admissions.Sliding(100, 2*time.Second),
	"minutely": admissions.Sliding(1000, time.Minute),
	"second":   admissions.Sliding(20, time.Second),
	"tenth":    admissions.Sliding(100, 10*time.Second),
	"minute":   admissions.Sliding(200, time.Minute),
	"hour":     admissions.Sliding(500, time.Hour),
	"few":      admissions.Sliding(5, time.Hour),
}

// storeTimeout is that of a fleet whose store fails. A slow computer needs more time not to give up
// a store that works.
func storeTimeout() time.Duration {
	if isWhole() {
		return 2 * time.Second
	}
	return 5 * time.Second
}

// fleetConfig is a Caddyfile with these zones.
func fleetConfig(store string, timeout time.Duration) string {
	var zones strings.Builder
	for name, l := range fleetZones {
		fmt.Fprintf(&zones, "zone %s {\nmatch path /%[1]s\nper key {http.request.header.X-Key}\nlimit %v\n}\n", name, l)
	}
	return options(fmt.Sprintf(`
	rate_limit {
		store %s
		secret_file {$DIR}/secret
		store_timeout %v
	}
	`, store, timeout)) + site("rate_limit {\n"+zones.String()+"}\nrespond hello")
}

// fleet is several Caddys, each with a folder and a clock of its own, and a network of its own to
// the server of their store.
type fleet struct {
	t        *testing.T
	server   *fleetServer
	machines []*fleetMachine
}

// fleetMachine is one of them.
type fleetMachine struct {
	*shifted
	network *testserver.Proxy
	keys    int // that were made up
}

// fleetClocks are how wrong the clocks of the machines are.
var fleetClocks = []time.Duration{5 * time.Second, -5 * time.Second, 10 * time.Minute, -10 * time.Minute}

// startFour starts four Caddys whose clocks differ.
func startFour(t *testing.T, server *fleetServer, timeout time.Duration) *fleet {
	t.Helper()
	f := &fleet{t: t, server: server}
	for _, wrong := range fleetClocks {
		network, err := testserver.NewProxy(server.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(network.Close)
		m := &fleetMachine{shifted: shift(newServer(t, fleetConfig(server.store, timeout), "STORE="+network.Port)), network: network}
		m.writeSecret(strings.Repeat("one secret for all ", 3))
		m.step(wrong)
		f.machines = append(f.machines, m)
	}
	f.all(func(m *fleetMachine) { m.launch() })
	f.all(func(m *fleetMachine) { m.awaitReady() })
	f.awaitUse()
	return f
}

// all does something for each machine, one after another.
func (f *fleet) all(do func(*fleetMachine)) {
	f.t.Helper()
	for _, m := range f.machines {
		do(m)
	}
}

// awaitUse waits until all machines use the store.
func (f *fleet) awaitUse() {
	f.t.Helper()
	f.all(func(m *fleetMachine) {
		waitFor(f.t, "the store to be in use", func() bool { return !m.health().Degraded })
	})
}

// awaitOutage waits until a machine has noticed that it can't use the store.
func (m *fleetMachine) awaitOutage() {
	m.t.Helper()
	waitFor(m.t, "an outage", func() bool {
		m.keys++
		m.get("/few", fmt.Sprintf("X-Key: made up by %s, %d", m.port, m.keys)).isAllowed(m.t)
		return m.health().Degraded
	})
}

// restart kills the server, has something done, and starts it again, each when all machines have noticed.
func (f *fleet) restart(do func()) {
	f.t.Helper()
	f.server.kill()
	f.all((*fleetMachine).awaitOutage)
	do()
	f.server.start()
	f.awaitUse()
}

// lines returns how many outages each machine has logged so far, in all its lives. Lines that tell
// of another cause of one, or that it lasts, don't count.
func (f *fleet) lines() (lines []int) {
	f.all(func(m *fleetMachine) {
		begun := 0
		for _, line := range m.logLines("the store can't be used; reduced limits are kept in memory until it can") {
			if line["since"] == 0.0 {
				begun++
			}
		}
		lines = append(lines, begun)
	})
	return lines
}

// in has the rest of a subtest fail that one.
func (f *fleet) in(t *testing.T) {
	whole := f.t
	set := func(t *testing.T) {
		f.t = t
		f.all(func(m *fleetMachine) { m.t = t })
	}
	set(t)
	t.Cleanup(func() { set(whole) })
}

// Four Caddys on one Redis, with clocks that are wrong, keep a limit while they are killed, their
// clocks and that of the server are set, their network fails, and the server does. The whole depth
// has more of it, also with a Postgres, and holds times against the promises.
func TestFleetOfFour(t *testing.T) {
	t.Parallel()
	for store, start := range fleetServers {
		t.Run(store, func(t *testing.T) {
			if store != "redis" && !isWhole() {
				t.Skip("has no short form; PROOF=1 runs it, as make proof does")
			}
			server := start(t).own(t)
			t.Run("with a store that is there", func(t *testing.T) { testWithStore(t, server) })
			t.Run("with a store that fails", func(t *testing.T) { testWithoutStore(t, server) })
		})
	}
}

// testWithStore does what is no outage: machines wait for the store as long as it takes, also on a
// slow computer. One that gave it up would decide for itself, and prove nothing.
func testWithStore(t *testing.T, server *fleetServer) {
	f := startFour(t, server, patience)
	f.run("kills", f.testKills)
	f.run("network", f.testNetwork)
	f.run("clocks", f.testClocks)
	if lines := f.lines(); slices.Max(lines) > 0 {
		t.Errorf("machines have given up a store that nobody has made fail: %v", lines)
	}
	f.checkLogs()
}

func testWithoutStore(t *testing.T, server *fleetServer) {
	f := startFour(t, server, storeTimeout())
	f.run("silence", f.testSilence)
	f.run("faults of the server", f.testServer)
	f.run("the server's clock", f.testServerClock)
	f.checkLogs()
}

// run runs a subtest.
func (f *fleet) run(name string, test func()) {
	f.t.Run(name, func(t *testing.T) {
		f.in(t)
		test()
	})
}

// checkLogs checks that no log has the password of the store.
func (f *fleet) checkLogs() {
	f.all(func(m *fleetMachine) {
		if strings.Contains(m.logs(), redisPassword) {
			f.t.Error("a log has the password of the store")
		}
	})
}
