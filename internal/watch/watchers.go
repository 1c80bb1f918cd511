// Package watch shows operators refusals as they happen, and a sample of those from before they looked.
package watch

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// Watchers stream decisions to operators, and keep the sample of requests. The zero value has no
// streams.
type Watchers struct {
	sampled [2]instance.PerSecond // requests that were let in, and refused ones

	mu      sync.Mutex
	streams map[*watcher]struct{} // guarded by mu
	closed  bool                  // guarded by mu: no further streams
	latest  [2]sample             // guarded by mu: as in sampled
	running sync.WaitGroup
}

// watcher is the stream of one operator.
type watcher struct {
	refusals chan Request
	end      context.CancelFunc
}

const (
	requestsPerSecond = 10 // of either kind
	totalsEvery       = time.Second
	watcherBacklog    = 32 // events that a slow reader may lag behind
)

// Watch returns the events from now on, until ctx ends or the watchers are closed.
func (w *Watchers) Watch(ctx context.Context, totals func() operator.Totals,
	tag func(key string) string) (<-chan operator.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return nil, operator.Errorf(http.StatusServiceUnavailable, "another config is being loaded; try again")
	case len(w.streams) >= operator.MaxStreams:
		return nil, operator.Errorf(http.StatusTooManyRequests,
			"there are %d streams of events already; end one of them", operator.MaxStreams)
	}
	ctx, end := context.WithCancel(ctx)
	one := &watcher{make(chan Request, requestsPerSecond), end}
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
func (w *watcher) forward(ctx context.Context, to chan<- operator.Event, totals func() operator.Totals,
	tag func(key string) string) {
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

// Add adds a request to the sample, unless the second's bound is reached: then it returns nil. It sends a refused one
// to all watchers.
func (w *Watchers) Add(now time.Time, refused bool, about func() Request) *Request {
	kind := 0
	if refused {
		kind = 1
	}
	if sampled := &w.sampled[kind]; sampled.IsFull(now) || !sampled.Admits(now, requestsPerSecond) {
		return nil
	}
	r := new(about())
	r.sample = w
	r.At, r.Path, r.Agent = now.UTC(), PathClass(r.Path),
		strings.Clone(wording.MaskText(wording.Shortened(r.Agent, maxAgent)))
	r.Host = wording.Printable(wording.Shortened(r.Host, maxHost), "")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest[kind].add(r)
	for one := range w.streams {
		if !refused {
			break
		}
		select {
		case one.refusals <- *r:
		default:
		}
	}
	return r
}

// Later notes what a later handler decides about a request that was let in. That may be the same one again: a zone
// is noted once.
func (w *Watchers) Later(r *Request, refused bool, counted []Counted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.refused = refused
	for _, c := range counted {
		if !slices.ContainsFunc(r.Counted, func(known Counted) bool { return known.Zone == c.Zone }) {
			r.Counted = append(r.Counted, c)
		}
	}
}

// Withdraw takes a request that was let in out of the sample, such as one of an operator who looks at the sample.
func (r *Request) Withdraw() { r.sample.Later(r, true, nil) }

// Recent returns the sample's requests of the last minutes, the newest first.
func (w *Watchers) Recent(now time.Time) []Request {
	begin := now.Add(-recentRequests)
	w.mu.Lock()
	list := append(w.latest[1].since(begin), w.latest[0].since(begin)...)
	w.mu.Unlock()
	slices.SortStableFunc(list, func(a, b Request) int { return b.At.Compare(a.At) })
	return list
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
