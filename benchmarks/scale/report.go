//go:build unix

package main

import (
	"fmt"
	"slices"
	"time"
)

// describe prints a raw line about some times.
func describe(what string, times []time.Duration) {
	fmt.Printf("raw %s n=%d p50=%s p99=%s max=%s\n", what, len(times),
		millis(quantile(times, 0.5)), millis(quantile(times, 0.99)), millis(quantile(times, 1)))
}

func millis(d time.Duration) string { return fmt.Sprintf("%.3fms", d.Seconds()*1000) }

// ratios prints the least, the middle and the largest of some ratios, beside
// what they are to be.
func ratios(what, target string, values []float64) {
	if len(values) == 0 {
		fmt.Printf("ratio %s: nothing measured (target %s)\n", what, target)
		return
	}
	slices.Sort(values)
	fmt.Printf("ratio %s min %.2f median %.2f max %.2f (target %s)\n", what,
		values[0], values[len(values)/2], values[len(values)-1], target)
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }
