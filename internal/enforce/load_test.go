package enforce

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tally/caddy-tally/internal/load"
	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
)

// Without requests, a zone is known not to apply any more once the load has been low for a while.
func TestConditionsEndWithoutRequests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		rate := load.NewRate(1, time.Second)
		z := &Zone{Name: "z", When: []*load.Switch{{Measure: rate}}}
		cfg := &Config{AllZones: []*Zone{z}}
		cfg.inheritLoad()
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
			rate.Add(cfg.Now())
			rate.Add(cfg.Now())
		}
	})
}
