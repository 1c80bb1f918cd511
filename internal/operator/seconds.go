package operator

import "time"

// Seconds is a duration, in JSON a number of seconds.
type Seconds float64

// SecondsOf returns a duration in seconds.
func SecondsOf(d time.Duration) Seconds { return Seconds(d.Seconds()) }

// Duration returns the duration, rounded to nanoseconds.
func (s Seconds) Duration() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }
