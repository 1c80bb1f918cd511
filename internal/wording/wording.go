// Package wording puts into words what a person reads on a page.
package wording

import (
	"fmt"
	"math"
	"time"
)

// Wait says a time to wait in words, rounded up: "45 seconds", "2 minutes", "1 day".
// It is "" if there is none.
func Wait(d time.Duration) string {
	hours := math.Ceil(d.Hours())
	switch {
	case d <= 0:
		return ""
	case d <= 90*time.Second:
		return count(math.Ceil(d.Seconds()), "second")
	case d <= 90*time.Minute:
		return count(math.Ceil(d.Minutes()), "minute")
	case hours == 24 || hours > 48:
		return count(math.Ceil(hours/24), "day")
	}
	return count(hours, "hour")
}

func count(n float64, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%.0f %ss", n, unit)
}
