// Package wording puts into words what a person reads on a page or a terminal.
package wording

import (
	"fmt"
	"math"
	"strconv"
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

// Number returns a number with its thousands apart: 1,234,567.
func Number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Scale returns a size in bytes in the largest unit that it has one of: 4.2 and MiB.
func Scale(bytes int64) (size float64, unit string) {
	size, unit = float64(bytes), "B"
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if size < 1024 {
			break
		}
		size, unit = size/1024, larger
	}
	return size, unit
}
