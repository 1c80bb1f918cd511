//go:build linux

package main

import (
	"math"
	"slices"
	"time"
)

// median returns the middle value, or the higher one of two.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// percentile returns the value that a share of the values doesn't exceed, or 0 if there
// are none. The values are sorted.
func percentile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// ratio returns a time as a multiple of another, or 0 if that is 0.
func ratio(a, b time.Duration) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
