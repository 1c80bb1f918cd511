package rules

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The bounds of a raise, in percent.
const (
	minPercent = 1
	maxPercent = 100_000
)

// ParseFactor parses the factor of a raise, such as 5x or 0.2x, and returns it in percent.
func ParseFactor(text string) (percent int, err error) {
	number, found := strings.CutSuffix(text, "x")
	f, err := strconv.ParseFloat(number, 64)
	switch {
	case !found || err != nil || strings.Trim(number, "0123456789.") != "":
		return 0, fmt.Errorf("got %s, expected a factor such as 5x, or 0.2x for less", quoted(text))
	case f < minPercent/100. || f > maxPercent/100:
		return 0, fmt.Errorf("got %s, expected a factor from %s to %s; to admit nothing, write ban", quoted(text),
			FormatFactor(minPercent), FormatFactor(maxPercent))
	case math.Abs(100*f-math.Round(100*f)) > 1e-6:
		return 0, fmt.Errorf("got %s, expected a factor with at most two digits after the point, such as %.2fx",
			quoted(text), f)
	}
	return int(math.Round(100 * f)), nil
}

// FormatFactor returns the text of a factor in percent, or "" if it is 0.
func FormatFactor(percent int) string {
	if percent == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(percent)/100, 'f', -1, 64) + "x"
}
