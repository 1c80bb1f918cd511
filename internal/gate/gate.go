// Package gate bounds the requests of a key in flight. Further ones may wait in line: first come,
// first served.
package gate

import (
	"context"
	"crypto/rand"
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

// ErrAway is the error of a request for which no place became free in time, and whose client keeps
// its position with a ticket.
var ErrAway = errors.New("the client waits elsewhere")

// Gate counts the requests in flight by keys. A key without any takes no memory. The zero value is
// ready for use, by several goroutines.
type Gate struct {
	mu    sync.Mutex
	lines map[string]*line
	away  map[string]*waiter // by the tickets of their clients
}

// line is the requests of one key.
type line struct {
	in      int64     // in flight, or awaited: it is their turn
	waiting []*waiter // in order of arrival
}

// waiter is a position in a line. Its request may have ended; then its client has a ticket.
type waiter struct {
	key  string
	turn chan struct{} // closed when it is its turn
	end  *time.Timer   // gives up the position of a client that doesn't return; nil unless it is away
}

// Ticket is the right of a client to return to its position in a line within [Away].
type Ticket struct {
	ID       string // what the client shows on its return; on its first visit ""
	Position int    // from 1
}

// Away is how long a client may stay away from its position. A place that became free for it is kept
// for Held only, because others wait for it.
const (
	Away = 10 * time.Second
	Held = 3 * time.Second
)

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
//
// With a ticket it returns ErrAway instead of ErrFull after waiting in vain. The position is kept
// for the next call with that ticket.
func (g *Gate) Enter(ctx context.Context, key string, r Rule, ticket *Ticket) (left int64, err error) {
	g.mu.Lock()
	w := g.resume(key, ticket)
	if w == nil {
		l := g.line(key)
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
		w = &waiter{key: key, turn: make(chan struct{})}
		l.waiting = append(l.waiting, w)
	}
	g.mu.Unlock()
	timer := time.NewTimer(r.Wait)
	defer timer.Stop()
	select {
	case <-w.turn:
		return 0, nil
	case <-timer.C:
		err = ErrFull
	case <-ctx.Done():
		err = ctx.Err()
	}
	return 0, g.stop(w, r, ticket, err)
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

// resume returns the position that a ticket is for, or nil.
func (g *Gate) resume(key string, ticket *Ticket) *waiter {
	if ticket == nil {
		return nil
	}
	w := g.away[ticket.ID]
	if w == nil || w.key != key {
		ticket.ID = ""
		return nil
	}
	delete(g.away, ticket.ID)
	w.end.Stop()
	w.end = nil
	return w
}

// stop ends the waiting of a request, and returns its error: nil if its turn came just now. A
// client that had to return keeps its position even if it breaks off.
func (g *Gate) stop(w *waiter, r Rule, ticket *Ticket, err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lines[w.key]
	i := slices.Index(l.waiting, w)
	switch {
	case i < 0 && err == ErrFull:
		return nil
	case ticket == nil || err != ErrFull && ticket.ID == "":
		if i < 0 {
			return nil // the caller leaves
		}
		g.remove(l, i)
		g.tidy(w.key, l)
		return err
	}
	if ticket.ID == "" {
		ticket.ID = rand.Text()
	}
	ticket.Position = i + 1
	if g.away == nil {
		g.away = make(map[string]*waiter)
	}
	id := ticket.ID
	g.away[id] = w
	w.end = time.AfterFunc(Away, func() { g.forget(id, w, r) })
	if err != ErrFull {
		return err
	}
	return ErrAway
}

// forget gives up the position of a client that hasn't returned, and the place that became free for
// it.
func (g *Gate) forget(id string, w *waiter, r Rule) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.away[id] != w {
		return // it has returned
	}
	delete(g.away, id)
	l := g.lines[w.key]
	if i := slices.Index(l.waiting, w); i >= 0 {
		g.remove(l, i)
		g.tidy(w.key, l)
		return
	}
	g.leave(w.key, l, r)
}

// remove removes a position from a line.
func (g *Gate) remove(l *line, i int) {
	l.waiting = slices.Delete(l.waiting, i, i+1)
	waiting.Add(-1)
}

// Leave gives back the place of a request: to the request that has waited longest, if the rule has
// room for it.
func (g *Gate) Leave(key string, r Rule) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leave(key, g.lines[key], r)
}

func (g *Gate) leave(key string, l *line, r Rule) {
	for l.in--; len(l.waiting) > 0 && l.in < r.Most; l.in++ {
		w := l.waiting[0]
		close(w.turn)
		if w.end != nil && w.end.Stop() {
			w.end.Reset(Held)
		}
		g.remove(l, 0)
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
