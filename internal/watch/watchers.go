// Package watch shows operators refusals as they happen, and a sample of those from before they looked.
package watch

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// Watchers stream decisions to operators, and keep the sample of refusals. The zero value has no
// streams.
type Watchers struct {
	sampled instance.PerSecond // refusals

	mu      sync.Mutex
	streams map[*watcher]struct{} // guarded by mu
	closed  bool                  // guarded by mu: no further streams
	latest  sample                // guarded by mu
	running sync.WaitGroup
}

// watcher is the stream of one operator.
type watcher struct {
	refusals chan Refusal
	end      context.CancelFunc
}

const (
	refusalsPerSecond = 10
	totalsEvery       = time.Second
	watcherBacklog    = 32 // events that a slow reader may lag behind
)

// Watch returns the events from now on, until ctx ends or the watchers are closed.
func (w *Watchers) Watch(ctx context.Context, totals func() operator.Totals, tag func(key string) string) (<-chan operator.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return nil, operator.Errorf(http.StatusServiceUnavailable, "another config is being loaded; try again")
	case len(w.streams) >= operator.MaxStreams:
		return nil, operator.Errorf(http.StatusTooManyRequests, "there are %d streams of events already; end one of them", operator.MaxStreams)
	}
	ctx, end := context.WithCancel(ctx)
	one := &watcher{make(chan Refusal, refusalsPerSecond), end}
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

func (w *Watchers) leave(one *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.end()
	delete(w.streams, one)
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
func (w *Watchers) Refused(now time.Time, about func() Refusal) {
	if !w.sampled.Admits(now, refusalsPerSecond) {
		return
	}
	refused := about()
	refused.At, refused.Path, refused.Agent = now.UTC(), PathClass(refused.Path), strings.Clone(wording.Shortened(refused.Agent, maxAgent))
	refused.Host = wording.Printable(wording.Shortened(refused.Host, maxHost), "")
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

// Recent returns the sample's refusals of the last minutes, the newest first.
func (w *Watchers) Recent(now time.Time) []Refusal {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest.since(now.Add(-recentRefusals))
}

// Close ends all streams and waits for their end.
func (w *Watchers) Close() {
	w.mu.Lock()
	w.closed = true
	for one := range w.streams {
		one.end()
	}
	w.mu.Unlock()
	w.running.Wait()
}
