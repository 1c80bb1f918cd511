// Package stats sums up what benchmarks have measured.
package stats

import (
	"math"
	"slices"
	"time"
)

// Median returns the middle value, or the higher one of two. There must be one.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// Percentile returns the value that a share of the values doesn't exceed, or 0 if there
// are none. The values are sorted.
func Percentile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

// Micros returns a time in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Ratio returns a time as a multiple of another, or 0 if that is 0.
func Ratio(a, b time.Duration) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
