package stats

import (
	"testing"
	"time"
)

func TestPercentiles(t *testing.T) {
	var values []time.Duration
	for i := range 1000 {
		values = append(values, time.Duration(i+1))
	}
	for share, want := range map[float64]time.Duration{0.5: 500, 0.99: 990, 0.999: 999, 1: 1000} {
		if got := Percentile(values, share); got != want {
			t.Errorf("%v: got %d, want %d", share, got, want)
		}
	}
	if got := Percentile(nil, 0.5); got != 0 {
		t.Errorf("of nothing: got %v", got)
	}
}
