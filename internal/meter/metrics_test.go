package meter

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// TestMetricsAreWellNamed lints the names and the help of all metrics. Those with labels need a
// value to be seen.
func TestMetricsAreWellNamed(t *testing.T) {
	config := Config{Zone: "lint"}
	config.Use()
	defer config.Release()
	registry := prometheus.NewRegistry()
	for _, c := range collectors {
		registry.MustRegister(c)
		switch c := c.(type) {
		case *prometheus.CounterVec:
			addOne(func(labels ...string) error { _, err := c.GetMetricWithLabelValues(labels...); return err })
		case *prometheus.GaugeVec:
			addOne(func(labels ...string) error { _, err := c.GetMetricWithLabelValues(labels...); return err })
		case *prometheus.HistogramVec:
			addOne(func(labels ...string) error { _, err := c.GetMetricWithLabelValues(labels...); return err })
		}
	}
	families, err := registry.Gather()
	if err != nil || len(families) != len(collectors) {
		t.Fatalf("%d of %d metrics: %v", len(families), len(collectors), err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// addOne adds a value with as many labels as it takes.
func addOne(add func(labels ...string) error) {
	for labels := []string{"lint"}; add(labels...) != nil; labels = append(labels, "lint") {
	}
}
