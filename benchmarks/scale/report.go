//go:build unix

package main

import (
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/stats"
)

// describe prints a raw line about some times.
func describe(what string, times *stats.Histogram) {
	fmt.Printf("raw %s n=%d p50=%s p99=%s max=%s\n", what, times.Count(),
		millis(times.Percentile(0.5)), millis(times.Percentile(0.99)), millis(times.Percentile(1)))
}

func millis(d time.Duration) string { return fmt.Sprintf("%.3fms", d.Seconds()*1000) }

// ratios prints some ratios beside their target.
func ratios(what, target string, values []float64) {
	if len(values) == 0 {
		fmt.Printf("ratio %s: nothing measured (target %s)\n", what, target)
		return
	}
	fmt.Printf("ratio %s: median %s (target %s)\n", what, stats.Spread(values), target)
}

// p99 returns the 99th percentile of times as a multiple of that of others.
func p99(times, others *stats.Histogram) float64 {
	return stats.Ratio(times.Percentile(0.99), others.Percentile(0.99))
}
