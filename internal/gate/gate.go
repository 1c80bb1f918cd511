// Package gate lets so many requests of a key be under way at a time. Further ones may wait in line:
// first come, first served.
package gate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MaxWaiting is about how many requests wait at all gates together, at most.
const MaxWaiting = 10_000

// ErrFull says that there is no place, and that none became free in time.
var ErrFull = errors.New("too many requests are under way")

// Gate counts the requests that are under way, by keys. A key of which none is takes no memory. The zero
// value is ready for use, by several goroutines.
type Gate struct {
	mu    sync.Mutex
	lines map[string]*line
}

// line is the requests of one key.
type line struct {
	in      int64           // that are under way
	waiting []chan struct{} // in the order in which they came; closed when it is their turn
}

var (
	waiting atomic.Int64 // at all gates
	gates   = struct {
		mu    sync.Mutex
		named map[string]*Gate
	}{named: make(map[string]*Gate)}
)

// Named returns the gate of a name. It stays the same as long as the process runs, so that requests that
// outlive a config count in the next one.
func Named(name string) *Gate {
	gates.mu.Lock()
	defer gates.mu.Unlock()
	if gates.named[name] == nil {
		gates.named[name] = new(Gate)
	}
	return gates.named[name]
}

// Rule is how many requests of a key may be under way.
type Rule struct {
	Most  int64         // at least 1
	Wait  time.Duration // how long a request waits for a place; 0 if it doesn't
	Queue int           // how many requests wait
}

// Enter takes a place for a request, which must leave, and returns how many are left. It waits for one
// as the rule says. The error is [ErrFull], or that of ctx if the request is given up meanwhile.
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
	waiting.Add(1) // of several gates at once a few more may wait
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
	return 0, nil // its turn has come just now
}

// giveUp takes a request out of the line, and reports whether it stood there still.
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

// Leave gives back the place of a request: to the one that waits longest, if the rule has room for it.
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

// tidy forgets a key of which no request is left.
func (g *Gate) tidy(key string, l *line) {
	if l.in == 0 && len(l.waiting) == 0 {
		delete(g.lines, key)
	}
}

// IsBusy reports whether requests of a key are under way.
func (g *Gate) IsBusy(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lines[key] != nil
}

// Waiting returns how many requests of all keys wait.
func (g *Gate) Waiting() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.lines {
		n += len(l.waiting)
	}
	return n
}

// Len returns of how many keys requests are under way.
func (g *Gate) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.lines)
}
