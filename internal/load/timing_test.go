package load

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
)

// slowBody takes a minute to arrive.
type slowBody struct{}

func (slowBody) Read([]byte) (int, error) { time.Sleep(time.Minute); return 0, io.EOF }

// Neither does a client that uploads slowly make the upstream slow, nor one that leaves at once fast.
func TestAnswersAreTimedWithoutTheirClients(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(r *http.Request, leave func())
		slow   bool
	}{
		"a fast answer":                   {func(*http.Request, func()) {}, false},
		"a slow answer":                   {func(*http.Request, func()) { time.Sleep(2 * time.Second) }, true},
		"a slow upload":                   {func(r *http.Request, _ func()) { io.ReadAll(r.Body) }, false},
		"a slow answer to a slow upload":  {func(r *http.Request, _ func()) { io.ReadAll(r.Body); time.Sleep(2 * time.Second) }, true},
		"a client that waited and left":   {func(_ *http.Request, leave func()) { time.Sleep(2 * time.Second); leave() }, true},
		"a client that has left at once":  {func(_ *http.Request, leave func()) { leave() }, false},
		"one that left while it uploaded": {func(r *http.Request, leave func()) { io.ReadAll(r.Body); leave() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				latency, now := NewLatency(time.Second), func() int64 { return 0 }
				for range 20 {
					ctx, leave := context.WithCancel(t.Context())
					r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", slowBody{})
					timed := NewTiming(ctx, now)
					timed.Measure(latency)
					timed.Watch(r)
					c.answer(r, leave)
					timed.End()
					leave()
				}
				if got := latency.Load(0) > 1; got != c.slow {
					t.Errorf("got slow %t, want %t", got, c.slow)
				}
			})
		})
	}
}
