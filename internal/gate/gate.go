// Package gate bounds the requests of a key in flight. Further ones may wait in line: first come,
// first served.
package gate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MaxWaiting is approximately the most requests that wait at all gates together.
const MaxWaiting = 10_000

// ErrFull is the error of a request for which no place became free in time.
var ErrFull = errors.New("too many requests are under way")

// Gate counts the requests in flight by keys. A key without any takes no memory. The zero value is
// ready for use, by several goroutines.
type Gate struct {
	mu    sync.Mutex
	lines map[string]*line
}

// line is the requests of one key.
type line struct {
	in      int64           // in flight
	waiting []chan struct{} // in order of arrival; closed when it is their turn
}

var (
	waiting atomic.Int64 // at all gates
	gates   = struct {
		mu    sync.Mutex
		named map[string]*Gate
	}{named: make(map[string]*Gate)}
)

// Named returns the gate with a name. It stays the same as long as the process runs, so that
// requests that outlive a config count in the next one.
func Named(name string) *Gate {
	gates.mu.Lock()
	defer gates.mu.Unlock()
	if gates.named[name] == nil {
		gates.named[name] = new(Gate)
	}
	return gates.named[name]
}

// Rule bounds the requests of a key.
type Rule struct {
	Most  int64         // in flight, at least 1
	Wait  time.Duration // the longest wait of a request; 0 if it doesn't wait
	Queue int           // the most waiting requests
}

// Enter takes a place for a request, which must call Leave, and returns the number of places left.
// It waits for a place as the rule says. The error is [ErrFull], or that of ctx if the request is
// given up meanwhile.
func (g *Gate) Enter(ctx context.Context, key string, r Rule) (left int64, err error) {
	g.mu.Lock()
	l := g.lines[key]
	if l == nil {
		if g.lines == nil {
			g.lines = make(map[string]*line)
		}
		l = new(line)
		g.lines[key] = l
	}
	if l.in < r.Most && len(l.waiting) == 0 {
		l.in++
		left = r.Most - l.in
		g.mu.Unlock()
		return left, nil
	}
	if r.Wait <= 0 || len(l.waiting) >= r.Queue || waiting.Load() >= MaxWaiting {
		g.mu.Unlock()
		return 0, ErrFull
	}
	waiting.Add(1) // a few more may wait if several gates add concurrently
	defer waiting.Add(-1)
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	g.mu.Unlock()
	timer := time.NewTimer(r.Wait)
	defer timer.Stop()
	select {
	case <-turn:
		return 0, nil
	case <-timer.C:
		err = ErrFull
	case <-ctx.Done():
		err = ctx.Err()
	}
	if g.giveUp(key, l, turn) {
		return 0, err
	}
	return 0, nil // its turn came just now
}

// giveUp removes a request from the line, and reports whether it was still there.
func (g *Gate) giveUp(key string, l *line, turn chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(l.waiting, turn)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	g.tidy(key, l)
	return true
}

// Leave gives back the place of a request: to the request that has waited longest, if the rule has
// room for it.
func (g *Gate) Leave(key string, r Rule) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lines[key]
	for l.in--; len(l.waiting) > 0 && l.in < r.Most; l.in++ {
		close(l.waiting[0])
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
	g.tidy(key, l)
}

// tidy forgets a key without requests.
func (g *Gate) tidy(key string, l *line) {
	if l.in == 0 && len(l.waiting) == 0 {
		delete(g.lines, key)
	}
}

// IsBusy reports whether requests of a key are in flight.
func (g *Gate) IsBusy(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lines[key] != nil
}

// Waiting returns the number of waiting requests of all keys.
func (g *Gate) Waiting() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.lines {
		n += len(l.waiting)
	}
	return n
}

// Len returns the number of keys with requests in flight.
func (g *Gate) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.lines)
}
