package tally

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// watchers are the operators who follow what is decided, and the sample of refusals that they are
// shown. The zero value has none.
type watchers struct {
	sampled instance.PerSecond // refusals

	mu      sync.Mutex
	streams map[*watcher]struct{} // guarded by mu
	closed  bool                  // guarded by mu: there will be no more
	latest  refusalSample         // guarded by mu
	running sync.WaitGroup
}

// watcher is one of them.
type watcher struct {
	refusals chan sampledRefusal
	end      context.CancelFunc
}

const (
	refusalsPerSecond = 10
	totalsEvery       = time.Second
	watcherBacklog    = 32 // events that a slow reader may be behind
)

// watch returns the events from now on, until ctx ends or the watchers are closed.
func (w *watchers) watch(ctx context.Context, totals func() operator.Totals, tag func(key string) string) (<-chan operator.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return nil, operator.Errorf(http.StatusServiceUnavailable, "another config is being loaded; try again")
	case len(w.streams) >= operator.MaxStreams:
		return nil, operator.Errorf(http.StatusTooManyRequests, "there are %d streams of events already; end one of them", operator.MaxStreams)
	}
	ctx, end := context.WithCancel(ctx)
	one := &watcher{make(chan sampledRefusal, refusalsPerSecond), end}
	if w.streams == nil {
		w.streams = make(map[*watcher]struct{})
	}
	w.streams[one] = struct{}{}
	events := make(chan operator.Event, watcherBacklog)
	w.running.Go(func() {
		defer close(events)
		defer w.leave(one)
		one.forward(ctx, events, totals, tag)
	})
	return events, nil
}

func (w *watchers) leave(one *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.end()
	delete(w.streams, one)
}

// forward sends totals now and every second, and refusals as they come. What finds no room
// is dropped.
func (one *watcher) forward(ctx context.Context, to chan<- operator.Event, totals func() operator.Totals, tag func(key string) string) {
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
		case sampled := <-one.refusals:
			refused := sampled.describe(tag)
			event = operator.Event{Refused: &refused}
		case <-ctx.Done():
			return
		}
	}
}

// refused keeps a refusal and sends it to all who watch, unless there were enough in this second.
func (w *watchers) refused(now time.Time, sample func(now time.Time) sampledRefusal) {
	if !w.sampled.Admits(now, refusalsPerSecond) {
		return
	}
	refused := sample(now)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest.add(refused)
	for one := range w.streams {
		select {
		case one.refusals <- refused:
		default:
		}
	}
}

// recent returns the refusals of the last minutes in the sample, the newest first.
func (w *watchers) recent(now time.Time) []sampledRefusal {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest.since(now.Add(-recentRefusals))
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
