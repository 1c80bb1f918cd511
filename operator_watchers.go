package tally

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// watchers are the operators who follow what is decided. The zero value has none.
type watchers struct {
	watched atomic.Int32 // how many there are, so that requests need no lock while nobody watches
	sent    perSecond    // refusals

	mu      sync.Mutex
	streams map[*watcher]struct{} // guarded by mu
	closed  bool                  // guarded by mu: there will be no more
	running sync.WaitGroup
}

// watcher is one of them.
type watcher struct {
	refusals chan operator.Refused
	end      context.CancelFunc
}

const (
	refusalsPerSecond = 10
	totalsEvery       = time.Second
	watcherBacklog    = 32 // events that a slow reader may be behind
)

// watch returns the events from now on, until ctx ends or the watchers are closed.
func (w *watchers) watch(ctx context.Context, totals func() operator.Totals) (<-chan operator.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return nil, operator.Errorf(http.StatusServiceUnavailable, "another config is being loaded; try again")
	case len(w.streams) >= operator.MaxStreams:
		return nil, operator.Errorf(http.StatusTooManyRequests, "there are %d streams of events already; end one of them", operator.MaxStreams)
	}
	ctx, end := context.WithCancel(ctx)
	one := &watcher{make(chan operator.Refused, refusalsPerSecond), end}
	if w.streams == nil {
		w.streams = make(map[*watcher]struct{})
	}
	w.streams[one] = struct{}{}
	w.watched.Add(1)
	events := make(chan operator.Event, watcherBacklog)
	w.running.Go(func() {
		defer close(events)
		defer w.leave(one)
		one.forward(ctx, events, totals)
	})
	return events, nil
}

func (w *watchers) leave(one *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.end()
	delete(w.streams, one)
	w.watched.Add(-1)
}

// forward sends totals now and every second, and refusals as they come. What finds no room
// is dropped.
func (one *watcher) forward(ctx context.Context, to chan<- operator.Event, totals func() operator.Totals) {
	ticker := time.NewTicker(totalsEvery)
	defer ticker.Stop()
	now := totals()
	event := operator.Event{Totals: &now}
	for {
		select {
		case to <- event:
		default:
		}
		select {
		case <-ticker.C:
			now := totals()
			event = operator.Event{Totals: &now}
		case refused := <-one.refusals:
			event = operator.Event{Refused: &refused}
		case <-ctx.Done():
			return
		}
	}
}

// refused sends a refusal to all who watch, unless there were enough in this second. It is
// only described then.
func (w *watchers) refused(now func() time.Time, describe func() operator.Refused) {
	if w.watched.Load() == 0 || !w.sent.admits(now(), refusalsPerSecond) {
		return
	}
	refused := describe()
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.streams {
		select {
		case one.refusals <- refused:
		default:
		}
	}
}

// close ends all streams, and waits for that.
func (w *watchers) close() {
	w.mu.Lock()
	w.closed = true
	for one := range w.streams {
		one.end()
	}
	w.mu.Unlock()
	w.running.Wait()
}
