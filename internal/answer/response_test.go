package answer

import (
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// An empty token bucket has a unit again once that one is refilled, not once all are.
func TestWindowOfAnEmptyBucket(t *testing.T) {
	arithmetic, err := limiter.New(limiter.Params{Algorithm: limiter.TokenBucket, Amount: 60, Window: time.Minute, Burst: 600})
	if err != nil {
		t.Fatal(err)
	}
	item := NewItem("z", arithmetic)
	for _, test := range []struct {
		remaining int64
		reset     time.Duration
		refused   bool
		want      int64
	}{
		{0, 600 * time.Second, false, 1},
		{0, 3 * time.Second, true, 3},
		{1, 599 * time.Second, false, 60},
	} {
		s := Status{Item: &item, Quota: limiter.Quota{Remaining: test.remaining, Reset: test.reset}}
		if got := s.effective(test.refused); got != test.want {
			t.Errorf("%+v: t is %d, want %d", test, got, test.want)
		}
	}
	// With a limit in force that refills a tenth as fast, the next unit takes ten times as long.
	less := arithmetic.Raise(10)
	s := Status{Item: &item, Quota: limiter.Quota{Reset: 600 * time.Second}, Amount: 6, Capacity: 60, InForce: &less}
	if got := s.effective(false); got != 10 {
		t.Errorf("t of a limit that is in force in place of another is %d, want 10", got)
	}
}
