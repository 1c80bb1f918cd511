package httpfield

import (
	"testing"
	"time"
)

// A client that waits as long as Retry-After says must not come too early.
func TestSecondsAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{1: 1, time.Second: 1, time.Second + 1: 2, 59*time.Second + 999*time.Millisecond: 60} {
		if got := Seconds(d); got != want {
			t.Errorf("%v is %d s, want %d", d, got, want)
		}
	}
}
