// Package gate bounds the requests of a key in flight. Further ones may wait in line, where parties take
// turns, which are the networks of clients or API keys: among requests of one party, and of as many parties
// as requests, first come, first served. Where no more may wait, the last of the party that has the most has
// to go.
package gate

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
	"weak"
)

// MaxWaiting is the most requests that wait at all gates together.
const MaxWaiting = 10_000

// ErrFull is the error of a request for which no place became free in time.
var ErrFull = errors.New("too many requests are under way")

// Gate counts the requests in flight by keys. A key without any takes no memory. The zero value is
// ready for use, by several goroutines.
type Gate struct {
	bound int64 // see Bound; 0 if each request's rule says it
	lines map[string]*line
}

// line is the requests of one key. No place is free while a request waits.
type line struct {
	most  int64 // in flight
	times int64 // as the latest request's rule says
	in    int64 // in flight
	crowd
	turns []*party // of the crowd, in the order of their turns
}

// mu guards all gates and what follows. Who has to go may be in another gate's line.
var (
	mu      sync.Mutex
	waiting crowd // at all gates
	named   = make(map[string]weak.Pointer[Gate])
)

// Named returns the gate with a name. It stays the same as long as a config or a request uses it, so
// that requests that outlive a config count in the next one.
func Named(name string) *Gate {
	mu.Lock()
	defer mu.Unlock()
	if g := named[name].Value(); g != nil {
		return g
	}
	g := new(Gate)
	named[name] = weak.Make(g)
	runtime.AddCleanup(g, forget, name)
	return g
}

// forget removes a gate that nobody uses, unless there is a newer one with its name.
func forget(name string) {
	mu.Lock()
	defer mu.Unlock()
	if named[name].Value() == nil {
		delete(named, name)
	}
}

// Bound sets how many requests of a key may be in flight from now on, whatever their rules say:
// requests of earlier configs arrive and leave by the number of the running one.
func (g *Gate) Bound(most int64) {
	mu.Lock()
	defer mu.Unlock()
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

// Enter takes a place for a request of a party, a comparable value, which must call Leave, and returns the
// number of places left. It waits for a place as the rule says. With [ErrFull] it returns the number of requests
// that wait, this one included, or 0 if there is no room for it. The error is [context.Canceled] if ctx
// or stop ends meanwhile: a request that isn't there any more has no position.
func (g *Gate) Enter(ctx context.Context, key string, whose any, r Rule, stop <-chan struct{}) (n int64,
	err error) {
	mu.Lock()
	l := g.line(key)
	l.times = max(r.Times, 1)
	l.most = cmp.Or(g.bound, r.Most) * l.times
	l.admit()
	if l.in < l.most {
		l.in++
		n = l.most - l.in
		mu.Unlock()
		return n, nil
	}
	instead, ok := l.mayWait(whose, r)
	if !ok {
		mu.Unlock()
		return 0, ErrFull
	}
	if instead != nil {
		instead.end(ErrFull)
	}
	w := &waiter{whose: whose, line: l, turn: make(chan error, 1)}
	if p, isNew := l.add(w); isNew {
		l.turns = append(l.turns, p)
	}
	waiting.add(w)
	mu.Unlock()
	timer := time.NewTimer(r.Wait)
	defer timer.Stop()
	err = ErrFull
	select {
	case err = <-w.turn:
		return 0, err
	case <-timer.C:
	case <-ctx.Done():
		err = context.Canceled
	case <-stop:
		err = context.Canceled
	}
	mu.Lock()
	defer mu.Unlock()
	select {
	case err = <-w.turn: // just now; the caller leaves if it may enter
		return 0, err
	default:
	}
	n = int64(l.n)
	w.leave()
	return n, err
}

// mayWait reports whether a request may wait, and who has to go instead if there is no room: in the
// line or, if that has room, in all of them.
func (l *line) mayWait(whose any, r Rule) (instead *waiter, ok bool) {
	if r.Wait <= 0 {
		return nil, false
	}
	if instead, ok = l.room(whose, r.Queue); instead != nil || !ok {
		return instead, ok
	}
	return waiting.room(whose, MaxWaiting)
}

// Forecast returns what Enter would at once, and takes no place. waits reports whether the request would wait.
func (g *Gate) Forecast(key string, whose any, r Rule) (n int64, waits bool, err error) {
	mu.Lock()
	defer mu.Unlock()
	l := cmp.Or(g.lines[key], new(line))
	if most := cmp.Or(g.bound, r.Most) * max(r.Times, 1); l.in < most && l.n == 0 {
		return most - l.in - 1, false, nil
	}
	if _, ok := l.mayWait(whose, r); !ok {
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

// Leave gives back the place of a request, to the one whose turn it is.
func (g *Gate) Leave(key string) {
	mu.Lock()
	defer mu.Unlock()
	l := g.lines[key]
	l.in--
	l.admit()
	if l.in == 0 { // and nobody waits
		delete(g.lines, key)
	}
}

// admit gives free places to waiting requests. A party that has more takes its next turn after all
// that wait now.
func (l *line) admit() {
	for ; l.n > 0 && l.in < l.most; l.in++ {
		p := l.turns[0]
		if len(p.waiting) > 1 {
			l.turns = append(l.turns[1:], p)
		}
		p.waiting[0].end(nil)
	}
}

// end ends the wait of a request.
func (w *waiter) end(err error) {
	w.leave()
	w.turn <- err
}

// leave takes a request out of its line.
func (w *waiter) leave() {
	waiting.remove(w)
	if p := w.line.remove(w); p != nil {
		i := slices.Index(w.line.turns, p)
		w.line.turns = slices.Delete(w.line.turns, i, i+1)
	}
}

// IsBusy reports whether requests of a key are in flight.
func (g *Gate) IsBusy(key string) bool {
	mu.Lock()
	defer mu.Unlock()
	return g.lines[key] != nil
}

// Waiting returns the number of waiting requests of all keys.
func (g *Gate) Waiting() (n int) {
	mu.Lock()
	defer mu.Unlock()
	for _, l := range g.lines {
		n += l.n
	}
	return n
}

// Len returns the number of keys with requests in flight.
func (g *Gate) Len() int {
	mu.Lock()
	defer mu.Unlock()
	return len(g.lines)
}
