package limiter_test

import (
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// A calendar costs a lookup of the time zone, which is rarely useful.
func BenchmarkCalendarSlot(b *testing.B) {
	location := loadPlace(b, "Europe/Berlin")
	p := limiter.Params{Algorithm: limiter.Fixed, Amount: 1, Window: 24 * time.Hour}
	utc := mustNew(b, p)
	p.Location = location
	berlin := mustNew(b, p)
	day := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixNano()
	b.Run("utc", func(b *testing.B) {
		for b.Loop() {
			utc.Slot(day)
		}
	})
	b.Run("berlin", func(b *testing.B) {
		for b.Loop() {
			berlin.Slot(day)
		}
	})
}
