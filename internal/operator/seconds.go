package operator

import (
	"math"
	"time"
)

// Seconds is a duration, in JSON a number of seconds.
type Seconds float64

// SecondsOf returns a duration in seconds.
func SecondsOf(d time.Duration) Seconds { return Seconds(d.Seconds()) }

// Duration returns the duration, rounded to nanoseconds. Longer values give the longest duration.
func (s Seconds) Duration() time.Duration {
	switch nanoseconds := float64(s) * float64(time.Second); {
	case nanoseconds >= math.MaxInt64:
		return math.MaxInt64
	case nanoseconds <= math.MinInt64 || math.IsNaN(nanoseconds):
		return math.MinInt64
	default:
		return time.Duration(nanoseconds)
	}
}
