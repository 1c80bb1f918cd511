package watch

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

func noTotals() operator.Totals { return operator.Totals{} }

// refused returns a refused request.
func refused(zone, key string) Request {
	return Request{Counted: []Counted{{zone, key}}, Refusal: &Refusal{Zone: zone, Limit: "daily"}}
}

func noTag(string) string { return "" }

// mustWatch returns the events of a stream, without the first totals.
func mustWatch(t *testing.T, w *Watchers, ctx context.Context) <-chan operator.Event {
	t.Helper()
	events, err := w.Watch(ctx, noTotals, noTag)
	if err != nil {
		t.Fatal(err)
	}
	if first := <-events; first.Totals == nil {
		t.Fatalf("the first event is %+v", first)
	}
	return events
}

func TestTotalsComeOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(Watchers)
		events := mustWatch(t, w, t.Context())
		for range 3 {
			before := time.Now()
			if event := <-events; event.Totals == nil || time.Since(before) != time.Second {
				t.Errorf("after %v came %+v", time.Since(before), event)
			}
		}
		w.Close()
	})
}

func TestRefusalsAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(Watchers)
		described := 0
		refuse := func() {
			w.Add(time.Now(), true, func() Request {
				described++
				return refused("login", "")
			})
			w.Add(time.Now(), false, func() Request {
				return Request{Counted: []Counted{{Zone: "login"}}} // no watcher gets it
			})
		}
		events := mustWatch(t, w, t.Context())
		for range 1000 {
			refuse()
		}
		synctest.Wait()
		if described != requestsPerSecond {
			t.Errorf("%d refusals are described, want %d", described, requestsPerSecond)
		}
		for range requestsPerSecond {
			if event := <-events; event.Refused == nil || event.Refused.Zone != "login" {
				t.Errorf("got %+v", event)
			}
		}
		if event := <-events; event.Totals == nil {
			t.Errorf("got %+v", event)
		}
		w.Close()
	})
}

// A reader that doesn't read blocks no others, and memory is bounded.
func TestSlowReadersMissEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(Watchers)
		events := mustWatch(t, w, t.Context())
		time.Sleep(1000 * time.Second)
		synctest.Wait()
		w.Close()
		got := 0
		for range events {
			got++
		}
		if got != watcherBacklog {
			t.Errorf("%d events wait for a slow reader, want %d", got, watcherBacklog)
		}
	})
}

func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(Watchers)
		ctx, cancel := context.WithCancel(t.Context())
		first := mustWatch(t, w, ctx)
		for range operator.MaxStreams - 1 {
			mustWatch(t, w, t.Context())
		}
		failure, ok := errors.AsType[*operator.Error](second(w.Watch(t.Context(), noTotals, noTag)))
		if !ok || failure.Status != http.StatusTooManyRequests {
			t.Errorf("got %v", failure)
		}
		cancel()
		for range first { // until it is closed
		}
		mustWatch(t, w, t.Context())
		w.Close()
		failure, ok = errors.AsType[*operator.Error](second(w.Watch(t.Context(), noTotals, noTag)))
		if !ok || failure.Status != http.StatusServiceUnavailable {
			t.Errorf("got %v", failure)
		}
		if len(w.streams) != 0 {
			t.Error("somebody watches after the end")
		}
	})
}

func second[A, B any](_ A, b B) B { return b }
