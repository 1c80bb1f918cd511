// Package stats sums up what benchmarks have measured.
package stats

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// Median returns the middle value, or the higher one of two. There must be one.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// Spread returns the median of values, and in parentheses the least and the largest.
func Spread(values []float64) string {
	return fmt.Sprintf("%.2f (%.2f to %.2f)", Median(values), slices.Min(values), slices.Max(values))
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

// A Histogram counts times in buckets whose width is at most 1/128 of the times in them, so that
// many millions of times take little memory.
type Histogram struct{ Counts [buckets]int64 }

const (
	bucketBits = 7
	buckets    = 30 << bucketBits // up to 68 s
)

// bucketOf returns the bucket of a time.
func bucketOf(d time.Duration) int {
	n := uint64(max(d, 0))
	shift := max(bits.Len64(n)-bucketBits-1, 0)
	return min(shift<<bucketBits+int(n>>shift), buckets-1)
}

// middle returns a time in the middle of a bucket.
func middle(bucket int) time.Duration {
	shift := max(bucket>>bucketBits-1, 0)
	return time.Duration(bucket-shift<<bucketBits)<<shift + time.Duration(1)<<shift/2
}

// Add counts a time.
func (h *Histogram) Add(d time.Duration) { h.Counts[bucketOf(d)]++ }

// Merge counts the times of another histogram.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.Counts {
		h.Counts[i] += n
	}
}

// Count returns the number of times.
func (h *Histogram) Count() (n int64) {
	for _, in := range h.Counts {
		n += in
	}
	return n
}

// Percentile returns about the time that a share of the times doesn't exceed, or 0 if there are
// none.
func (h *Histogram) Percentile(share float64) time.Duration {
	left := share * float64(h.Count())
	for i, n := range h.Counts {
		if left -= float64(n); n > 0 && left <= 0 {
			return middle(i)
		}
	}
	return 0
}
