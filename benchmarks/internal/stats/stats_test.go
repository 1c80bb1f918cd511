package stats

import (
	"testing"
	"time"
)

func TestPercentilesOfAHistogram(t *testing.T) {
	var h Histogram
	for i := range 100_000 {
		h.Add(time.Duration(i) * time.Microsecond)
	}
	for _, share := range []float64{0.01, 0.5, 0.99, 1} {
		want := share * 100_000
		if got := Micros(h.Percentile(share)); got < want*0.992 || got > want*1.008 {
			t.Errorf("%v: got %v µs, want %v", share, got, want)
		}
	}
	if got := new(Histogram).Percentile(0.5); got != 0 {
		t.Errorf("of nothing: got %v", got)
	}
}
