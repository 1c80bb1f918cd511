//go:build linux

package main

import (
	"math/bits"
	"time"
)

// A histogram counts times in buckets that are 1/32 as wide as what is in them, so that many
// millions of times are counted without being kept.
type histogram struct{ Counts [buckets]int64 }

const (
	bucketBits = 5
	buckets    = 32 << bucketBits // up to 34 s
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

func (h *histogram) add(d time.Duration) { h.Counts[bucketOf(d)]++ }

func (h *histogram) merge(other *histogram) {
	for i, n := range other.Counts {
		h.Counts[i] += n
	}
}

// percentile returns about the time that a share of the times doesn't exceed, or 0 if there are
// none.
func (h *histogram) percentile(share float64) time.Duration {
	total := int64(0)
	for _, n := range h.Counts {
		total += n
	}
	left := share * float64(total)
	for i, n := range h.Counts {
		if left -= float64(n); n > 0 && left <= 0 {
			return middle(i)
		}
	}
	return 0
}
