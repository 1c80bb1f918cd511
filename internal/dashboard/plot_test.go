package dashboard

import (
	"slices"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// A period that isn't over, or isn't written yet, doesn't look like a drop to zero.
func TestDensePoints(t *testing.T) {
	start := time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	h := operator.History{Resolution: 60}
	for _, minute := range []int{1, 3} {
		h.Points = append(h.Points, operator.HistoryPoint{At: at(minute), Counts: operator.Counts{Allowed: int64(minute)}})
	}
	for minutes, want := range map[int][]float64{4: {0, 1, 0, 3}, 5: {0, 1, 0, 3}, 6: {0, 1, 0, 3}, 8: {0, 1, 0, 3, 0, 0}} {
		var got []float64
		for _, point := range densePoints(h, start, at(minutes)) {
			got = append(got, point.Allowed)
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %d minutes: got %v, want %v", minutes, got, want)
		}
	}
	if got := densePoints(operator.History{Resolution: 1e-9}, start, at(60)); got != nil {
		t.Errorf("got %d points", len(got))
	}
}
