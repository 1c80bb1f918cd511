// Package gate bounds the requests of a key in flight. Further ones may wait in line: first come,
// first served.
package gate

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"
)

// MaxWaiting is approximately the most requests that wait at all gates together.
const MaxWaiting = 10_000

// ErrFull is the error of a request for which no place became free in time.
var ErrFull = errors.New("too many requests are under way")

// Gate counts the requests in flight by keys. A key without any takes no memory. The zero value is
// ready for use, by several goroutines.
type Gate struct {
	mu    sync.Mutex
	bound int64 // see Bound; 0 if each request's rule says it
	lines map[string]*line
}

// line is the requests of one key. No place is free while a request waits.
type line struct {
	most    int64           // in flight
	times   int64           // as the latest request's rule says
	in      int64           // in flight
	waiting []chan struct{} // closed when it is the request's turn; in order of arrival
}

var (
	waiting atomic.Int64 // at all gates
	gates   = struct {
		mu    sync.Mutex
		named map[string]weak.Pointer[Gate]
	}{named: make(map[string]weak.Pointer[Gate])}
)

// Named returns the gate with a name. It stays the same as long as a config or a request uses it, so
// that requests that outlive a config count in the next one.
func Named(name string) *Gate {
	gates.mu.Lock()
	defer gates.mu.Unlock()
	if g := gates.named[name].Value(); g != nil {
		return g
	}
	g := new(Gate)
	gates.named[name] = weak.Make(g)
	runtime.AddCleanup(g, forget, name)
	return g
}

// forget removes a gate that nobody uses, unless there is a newer one with its name.
func forget(name string) {
	gates.mu.Lock()
	defer gates.mu.Unlock()
	if gates.named[name].Value() == nil {
		delete(gates.named, name)
	}
}

// Bound sets how many requests of a key may be in flight from now on, whatever their rules say:
// requests of earlier configs arrive and leave by the number of the running one.
func (g *Gate) Bound(most int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bound = most
	for _, l := range g.lines {
		l.most = most * l.times
		l.admit()
	}
}

// Rule bounds the requests of a key.
type Rule struct {
	Most  int64         // in flight, at least 1, unless the gate has a bound
	Times int64         // times as many for this key; 0 means once
	Wait  time.Duration // the longest wait of a request; 0 if it doesn't wait
	Queue int           // the most waiting requests
}

// Enter takes a place for a request, which must call Leave, and returns the number of places left.
// It waits for a place as the rule says. With [ErrFull] it returns the number of requests that wait,
// this one included, or 0 if the request didn't wait. The error is [context.Canceled] if ctx or stop
// ends meanwhile: a request that isn't there any more has no position.
func (g *Gate) Enter(ctx context.Context, key string, r Rule, stop <-chan struct{}) (n int64, err error) {
	g.mu.Lock()
	l := g.line(key)
	l.times = max(r.Times, 1)
	l.most = cmp.Or(g.bound, r.Most) * l.times
	l.admit()
	if l.in < l.most {
		l.in++
		n = l.most - l.in
		g.mu.Unlock()
		return n, nil
	}
	if r.Wait <= 0 || len(l.waiting) >= r.Queue || waiting.Load() >= MaxWaiting {
		g.mu.Unlock()
		return 0, ErrFull
	}
	waiting.Add(1) // a few more may wait if several gates add concurrently
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	g.mu.Unlock()
	timer := time.NewTimer(r.Wait)
	defer timer.Stop()
	select {
	case <-turn:
		return 0, nil
	case <-timer.C:
		return g.giveUp(l, turn, ErrFull)
	case <-ctx.Done():
	case <-stop:
	}
	return g.giveUp(l, turn, context.Canceled)
}

// Look returns what Enter would at once, and takes no place. waits reports whether the request would wait.
func (g *Gate) Look(key string, r Rule) (n int64, waits bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	in, ahead, most := int64(0), 0, cmp.Or(g.bound, r.Most)*max(r.Times, 1)
	if l := g.lines[key]; l != nil {
		in, ahead = l.in, len(l.waiting)
	}
	switch {
	case in < most && ahead == 0:
		return most - in - 1, false, nil
	case r.Wait <= 0 || ahead >= r.Queue || waiting.Load() >= MaxWaiting:
		return 0, false, ErrFull
	}
	return 0, true, nil
}

// line returns the requests of a key.
func (g *Gate) line(key string) *line {
	l := g.lines[key]
	if l == nil {
		if g.lines == nil {
			g.lines = make(map[string]*line)
		}
		l = new(line)
		g.lines[key] = l
	}
	return l
}

// giveUp removes a request from its line, unless its turn came just now. It returns the number of
// requests that waited, and err.
func (g *Gate) giveUp(l *line, turn chan struct{}, err error) (int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(l.waiting, turn)
	if i < 0 {
		return 0, nil // the caller leaves
	}
	n := len(l.waiting)
	l.remove(i)
	return int64(n), err
}

// Leave gives back the place of a request: to the one that has waited longest.
func (g *Gate) Leave(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lines[key]
	l.in--
	l.admit()
	if l.in == 0 { // and nobody waits
		delete(g.lines, key)
	}
}

// admit gives free places to waiting requests.
func (l *line) admit() {
	for ; len(l.waiting) > 0 && l.in < l.most; l.in++ {
		close(l.waiting[0])
		l.remove(0)
	}
}

// remove removes a request from the waiting ones.
func (l *line) remove(i int) {
	l.waiting = slices.Delete(l.waiting, i, i+1)
	waiting.Add(-1)
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
