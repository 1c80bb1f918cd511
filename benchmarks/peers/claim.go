//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/stats"
)

// unloadedRate is how many requests per second come where nothing waits for anything.
const unloadedRate = 200

// claims measures how much longer an answer takes for a claim: requests with a new key
// each, one at a time, with the limiter and without, in turn.
func (b *bench) claims(ctx context.Context) error {
	program, err := b.buildTally(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "what a claim adds …")
	plain, r, err := b.startPair(ctx, site{program: program, limit: usual, gogc: "100"})
	if err != nil {
		return err
	}
	defer plain.stop()
	defer r.stop()
	keys := &keySender{}
	sides := []*running{plain, r}
	for _, side := range sides { // warm up
		if _, err := b.unloaded(ctx, side, keys, time.Second); err != nil {
			return err
		}
	}
	var added []float64
	for range b.repeats {
		var p50 [2]time.Duration
		for i, side := range sides {
			if p50[i], err = b.unloaded(ctx, side, keys, b.period); err != nil {
				return err
			}
		}
		if sides[0] != plain {
			slices.Reverse(p50[:])
		}
		added = append(added, stats.Micros(p50[1]-p50[0]))
		fmt.Printf("raw p50 with a new key each: %.1f µs, without the limiter %.1f µs\n", stats.Micros(p50[1]), stats.Micros(p50[0]))
		slices.Reverse(sides)
	}
	fmt.Printf("a claim adds: p50 %.1f µs (%.1f to %.1f)\n", stats.Median(added), slices.Min(added), slices.Max(added))
	return nil
}

// unloaded returns the median time of answers over one connection.
func (b *bench) unloaded(ctx context.Context, r *running, keys *keySender, d time.Duration) (time.Duration, error) {
	got, err := send(ctx, r, b.openLoop(keys, 1, unloadedRate, d))
	keys.sent += int64(len(got.Samples))
	if err != nil {
		return 0, err
	}
	took := make([]time.Duration, len(got.Samples))
	for i, s := range got.Samples {
		took[i] = s.Took
	}
	slices.Sort(took)
	return stats.Percentile(took, .5), nil
}
