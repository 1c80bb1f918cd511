//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/load"
	"github.com/caddy-tally/caddy-tally/internal/engine"
)

// checkpoint compares cold decisions while the log is copied into the
// database file with those between, of one engine.
func (s settings) checkpoint(ctx context.Context) error {
	d, err := filled(ctx, s, s.some)
	if err != nil {
		return err
	}
	e, err := d.start(engine.Options{})
	if err != nil {
		return err
	}
	asked, err := d.newDecisions(e, live, s.rate)
	if err != nil {
		return err
	}
	if _, err := asked.run(ctx, time.Second); err != nil { // so that there is a log
		return err
	}
	index, err := openWALIndex(d.Database() + "-shm")
	if err != nil {
		return err
	}
	asked.mark = index.mark
	var values []float64
	var all load.Report
	for range s.repeats {
		r, err := asked.run(ctx, 40*s.period) // a checkpoint comes every few seconds
		if err != nil {
			return err
		}
		describe("between checkpoints", &r.Took[usual])
		describe("during checkpoints", &r.Took[marked])
		if r.Count(marked) > 0 {
			values = append(values, p99(&r.Took[marked], &r.Took[usual]))
		}
		all.Merge(&r)
	}
	describe("between checkpoints, all", &all.Took[usual])
	describe("during checkpoints, all", &all.Took[marked])
	ratios(fmt.Sprintf("p99 cold during checkpoints to between, rows=%d", s.some), "2 or less", values)
	if err := e.Close(ctx); err != nil {
		return err
	}
	return index.close()
}
