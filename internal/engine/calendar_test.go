package engine

import (
	"testing"
	"time"
	_ "time/tzdata" // for machines without time zones

	"github.com/caddy-tally/caddy-tally/limiter"
)

// A quota for each day of a place follows the place's days, even the day that lacks an hour, and
// the retry time is midnight there.
func TestQuotaOfAShortDay(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 300, Window: 24 * time.Hour, Location: berlin})
	f := newFixture(t) // a second before the clocks are set ahead, from 2:00 to 3:00
	for day := 29; day < 31; day++ {
		passed := 0
		for range 20 { // hours, which belong to the same day
			passed += f.count(10, debit(limit, "a", 1))
			f.fake.advance(time.Hour)
		}
		if passed += f.count(200, debit(limit, "a", 1)); passed != 300 {
			t.Errorf("%d requests passed on March %d, want 300", passed, day)
		}
		now := time.Unix(0, f.fake.wall.Load())
		midnight := time.Date(2026, 3, day+1, 0, 0, 0, 0, berlin)
		if d := f.ask(debit(limit, "a", 1)); d.Retry != midnight.Sub(now) {
			t.Errorf("to be tried again in %v, want %v", d.Retry, midnight.Sub(now))
		}
		f.fake.advance(midnight.Sub(now) - 1)
		if f.ask(debit(limit, "a", 1)).Allowed {
			t.Errorf("a request passes before midnight")
		}
		f.fake.advance(1)
	}
}
