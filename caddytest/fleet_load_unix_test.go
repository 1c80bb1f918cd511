//go:build unix

package caddytest

import (
	"math/rand/v2"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/admissions"
)

// fleetLoad is clients that send requests until they are stopped.
type fleetLoad struct {
	*ledger
	stop func()
}

// load has some clients ask machines, chosen at random, for a key of each zone. A client pauses
// before each request, for longer in the short form.
func (f *fleet) load(clients int, key string, pause time.Duration, zones ...string) *fleetLoad {
	if !isWhole() {
		pause += 25 * time.Millisecond
	}
	l := newLedger()
	stop := repeat(clients, func(i int) {
		time.Sleep(pause)
		f.machines[rand.IntN(len(f.machines))].ask(l, zones[i%len(zones)], key)
	})
	f.t.Cleanup(stop)
	return &fleetLoad{l, stop}
}

// ask sends a request to a machine and notes what is answered.
func (m *fleetMachine) ask(l *ledger, zone, key string) {
	l.ask(m.server, account{zone, key}, 1, func(*observed) {})
}

// admittedOf returns what was admitted of a key so far.
func (l *ledger) admittedOf(zone, key string) []admissions.Admission {
	return admitted(l.of(account{zone, key}))
}

// newest returns when a request of a key was admitted last, or 0.
func (l *ledger) newest(zone, key string) (at int64) {
	for _, a := range l.admittedOf(zone, key) {
		at = max(at, a.Answered)
	}
	return at
}

// count returns how many requests of a key were admitted.
func (l *ledger) count(zone, key string) int { return len(l.admittedOf(zone, key)) }

// answered returns how many requests were answered.
func (l *ledger) answered() int {
	admitted, refused, _ := l.total()
	return admitted + refused
}

// longest returns how many seconds a client was told to wait for at most.
func (l *ledger) longest(zone, key string) (seconds int64) {
	for _, o := range l.of(account{zone, key}) {
		seconds = max(seconds, o.retry)
	}
	return seconds
}
