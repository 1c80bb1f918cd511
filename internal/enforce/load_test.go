package enforce

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tally/caddy-tally/internal/load"
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
				latency, now := load.NewLatency(time.Second), func() int64 { return 0 }
				for range 20 {
					ctx, leave := context.WithCancel(t.Context())
					r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", slowBody{})
					timed := &timing{ctx: ctx, began: time.Now(), now: now, of: []*load.Latency{latency}}
					timed.watch(r)
					c.answer(r, leave)
					timed.end()
					leave()
				}
				if got := latency.Load(0) > 1; got != c.slow {
					t.Errorf("got slow %t, want %t", got, c.slow)
				}
			})
		})
	}
}

// Without requests, a zone is known not to apply any more once the load has been low for a while.
func TestConditionsEndWithoutRequests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		rate := load.NewRate(1, time.Second)
		z := &Zone{Name: "z", When: []*load.Switch{{Measure: rate}}}
		a := &Config{AllZones: []*Zone{z}}
		a.inheritLoad()
		defer running.Store(nil)
		for _, want := range []float64{0, 1, 0} {
			registry := prometheus.NewRegistry()
			registry.MustRegister(conditions{})
			families, err := registry.Gather()
			if err != nil || len(families) != 1 || families[0].GetMetric()[0].GetGauge().GetValue() != want {
				t.Errorf("got %v and %v, want one gauge of %v", families, err, want)
			}
			if want == 1 {
				time.Sleep(time.Minute)
				continue
			}
			rate.Add(a.Now())
			rate.Add(a.Now())
		}
	})
}
