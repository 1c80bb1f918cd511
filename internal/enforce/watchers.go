package enforce

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// Watchers stream decisions to operators, and keep the sample of refusals. The zero value has no
// streams.
type Watchers struct {
	Sampled instance.PerSecond // refusals

	Mu      sync.Mutex
	Streams map[*watcher]struct{} // guarded by mu
	closed  bool                  // guarded by mu: no further streams
	Latest  refusalSample         // guarded by mu
	running sync.WaitGroup
}

// watcher is the stream of one operator.
type watcher struct {
	refusals chan SampledRefusal
	end      context.CancelFunc
}

const (
	RefusalsPerSecond = 10
	totalsEvery       = time.Second
	WatcherBacklog    = 32 // events that a slow reader may lag behind
)

// Watch returns the events from now on, until ctx ends or the watchers are closed.
func (w *Watchers) Watch(ctx context.Context, totals func() operator.Totals, tag func(key string) string) (<-chan operator.Event, error) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	switch {
	case w.closed:
		return nil, operator.Errorf(http.StatusServiceUnavailable, "another config is being loaded; try again")
	case len(w.Streams) >= operator.MaxStreams:
		return nil, operator.Errorf(http.StatusTooManyRequests, "there are %d streams of events already; end one of them", operator.MaxStreams)
	}
	ctx, end := context.WithCancel(ctx)
	one := &watcher{make(chan SampledRefusal, RefusalsPerSecond), end}
	if w.Streams == nil {
		w.Streams = make(map[*watcher]struct{})
	}
	w.Streams[one] = struct{}{}
	events := make(chan operator.Event, WatcherBacklog)
	w.running.Go(func() {
		defer close(events)
		defer w.leave(one)
		one.forward(ctx, events, totals, tag)
	})
	return events, nil
}

func (w *Watchers) leave(one *watcher) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	one.end()
	delete(w.Streams, one)
}

// forward sends totals now and every second, and refusals as they come. It drops events that don't
// fit into the channel.
func (w *watcher) forward(ctx context.Context, to chan<- operator.Event, totals func() operator.Totals, tag func(key string) string) {
	ticker := time.NewTicker(totalsEvery)
	defer ticker.Stop()
	event := operator.Event{Totals: new(totals())}
	for {
		select {
		case to <- event:
		default:
		}
		select {
		case <-ticker.C:
			event = operator.Event{Totals: new(totals())}
		case sampled := <-w.refusals:
			event = operator.Event{Refused: new(sampled.describe(tag))}
		case <-ctx.Done():
			return
		}
	}
}

// Refused adds a refusal to the sample and sends it to all watchers, unless the second's bound is
// reached.
func (w *Watchers) Refused(now time.Time, sample func(now time.Time) SampledRefusal) {
	if !w.Sampled.Admits(now, RefusalsPerSecond) {
		return
	}
	refused := sample(now)
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Latest.add(refused)
	for one := range w.Streams {
		select {
		case one.refusals <- refused:
		default:
		}
	}
}

// Recent returns the sample's refusals of the last minutes, the newest first.
func (w *Watchers) Recent(now time.Time) []SampledRefusal {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.Latest.since(now.Add(-RecentRefusals))
}

// Close ends all streams and waits for their end.
func (w *Watchers) Close() {
	w.Mu.Lock()
	w.closed = true
	for one := range w.Streams {
		one.end()
	}
	w.Mu.Unlock()
	w.running.Wait()
}
