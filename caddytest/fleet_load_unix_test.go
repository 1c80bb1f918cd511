//go:build unix

package caddytest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/admissions"
)

// fleetLedger is what clients of a fleet were answered. Requests that were cut off, because a Caddy
// was killed, are only counted: whether they were admitted is not known.
type fleetLedger struct {
	mu       sync.Mutex
	admitted map[string][]admissions.Admission // guarded by mu, like all below; by zone and key
	statuses map[int]int
	cutOff   int
	slowest  time.Duration
	longest  map[string]int // Retry-After, in seconds, by zone and key
}

func newLedger() *fleetLedger {
	return &fleetLedger{admitted: make(map[string][]admissions.Admission), statuses: make(map[int]int), longest: make(map[string]int)}
}

// ask sends a request to a machine and notes what is answered. It reports whether the request was
// admitted.
func (l *fleetLedger) ask(m *fleetMachine, zone, key string) bool {
	sent := time.Now()
	a, err := m.try(http.MethodGet, "/"+zone, "X-Key: "+key)
	answered := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.cutOff++
		return false
	}
	l.slowest = max(l.slowest, answered.Sub(sent))
	l.statuses[a.status]++
	name := zone + " " + key
	l.longest[name] = max(l.longest[name], a.retryAfter())
	if a.status == http.StatusOK {
		l.admitted[name] = append(l.admitted[name], admissions.Admission{Sent: sent.UnixNano(), Answered: answered.UnixNano(), Cost: 1})
	}
	return a.status == http.StatusOK
}

// count returns how many requests of a key were admitted.
func (l *fleetLedger) count(zone, key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.admitted[zone+" "+key])
}

// newest returns when a request of a key was admitted last, or 0.
func (l *fleetLedger) newest(zone, key string) (at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.admitted[zone+" "+key] {
		at = max(at, a.Answered)
	}
	return at
}

// answered returns how many requests were answered.
func (l *fleetLedger) answered() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.statuses {
		n += of
	}
	return n
}

// check fails the test unless all requests were admitted or refused.
func (l *fleetLedger) check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for status, n := range l.statuses {
		if status != http.StatusOK && status != http.StatusTooManyRequests {
			t.Errorf("%d requests got status %d", n, status)
		}
	}
}

// String tells what was answered.
func (l *fleetLedger) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%d admitted, %d refused, %d cut off, the slowest in %v",
		l.statuses[http.StatusOK], l.statuses[http.StatusTooManyRequests], l.cutOff, l.slowest.Round(time.Millisecond))
}

// clone returns what was admitted so far.
func (l *fleetLedger) clone() map[string][]admissions.Admission {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.admitted)
}

// fleetLoad is clients that send requests until they are stopped.
type fleetLoad struct {
	*fleetLedger
	stopped chan struct{}
	clients sync.WaitGroup
}

// load has some clients ask machines, chosen at random, for a key of each zone. A client pauses
// after each request, for longer in the short form.
func (f *fleet) load(clients int, key string, pause time.Duration, zones ...string) *fleetLoad {
	if !isWhole() {
		pause += 25 * time.Millisecond
	}
	l := &fleetLoad{fleetLedger: newLedger(), stopped: make(chan struct{})}
	f.t.Cleanup(l.stop)
	for i := range clients {
		l.clients.Go(func() {
			for {
				select {
				case <-l.stopped:
					return
				case <-time.After(pause):
				}
				l.ask(f.machines[rand.IntN(len(f.machines))], zones[i%len(zones)], key)
			}
		})
	}
	return l
}

// stop stops the clients and waits for them. It may be called several times.
func (l *fleetLoad) stop() {
	l.mu.Lock()
	select {
	case <-l.stopped:
	default:
		close(l.stopped)
	}
	l.mu.Unlock()
	l.clients.Wait()
}
