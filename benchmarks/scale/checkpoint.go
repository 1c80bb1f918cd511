//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// checkpoint compares cold decisions while the log is copied into the
// database file with those between, of one engine.
func (s settings) checkpoint(ctx context.Context) error {
	d, err := filled(ctx, s, s.some)
	if err != nil {
		return err
	}
	limit, err := lab.NewLimit(live)
	if err != nil {
		return err
	}
	e, err := d.start(engine.Options{})
	if err != nil {
		return err
	}
	l := &load{engine: e, limit: limit, keys: d.keys(1), rate: s.rate}
	if _, err := l.run(ctx, time.Second); err != nil { // so that there is a log
		return err
	}
	index, err := openWALIndex(d.Database() + "-shm")
	if err != nil {
		return err
	}
	l.marked = index.mark
	var values []float64
	var during, between []time.Duration
	for range s.repeats {
		samples, err := l.run(ctx, 40*s.period) // a checkpoint comes every few seconds
		if err != nil {
			return err
		}
		marked, others := split(samples)
		describe("between checkpoints", others)
		describe("during checkpoints", marked)
		if len(marked) > 0 {
			values = append(values, ratio(quantile(marked, 0.99), quantile(others, 0.99)))
		}
		during, between = append(during, marked...), append(between, others...)
	}
	describe("between checkpoints, all", between)
	describe("during checkpoints, all", during)
	ratios(fmt.Sprintf("p99 cold during checkpoints to between, rows=%d", s.some), "2 or less", values)
	if err := e.Close(ctx); err != nil {
		return err
	}
	return index.close()
}
