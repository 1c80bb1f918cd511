//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/stats"
	"github.com/caddy-tally/caddy-tally/internal/engine"
)

// smallest is the database that larger ones are compared to.
const smallest = 10_000

// coldDatabase is a database of which cold decisions are measured.
type coldDatabase struct {
	*database
	asked  *decisions
	round  stats.Histogram // times of the last round
	all    stats.Histogram
	cpu    time.Duration // of the process, the load included
	claims int64
	ratios []float64 // of p99 to that of the smallest database, of each round
}

// cold compares cold decisions with 10^4, 10^5 … rows, in turn.
func (s settings) cold(ctx context.Context) error {
	var databases []*coldDatabase
	for rows := smallest; rows <= s.rows; rows *= 10 {
		d, err := openCold(ctx, s, rows)
		if err != nil {
			return err
		}
		databases = append(databases, d)
	}
	for range s.rounds {
		for _, d := range databases {
			if err := d.measure(ctx, s.period); err != nil {
				return err
			}
			d.ratios = append(d.ratios, p99(&d.round, &databases[0].round))
		}
	}
	for _, d := range databases {
		describe(fmt.Sprintf("cold rows=%d all rounds cpu/claim=%s", d.rows, d.cpu/time.Duration(max(d.claims, 1))), &d.all)
		ratios(fmt.Sprintf("p99 cold rows=%d to rows=%d", d.rows, smallest), "2 or less", d.ratios)
		fmt.Printf("ratio p99 of all rounds: %.2f\n", p99(&d.all, &databases[0].all))
		if err := d.close(ctx); err != nil {
			return err
		}
	}
	return nil
}

func openCold(ctx context.Context, s settings, rows int) (*coldDatabase, error) {
	d, err := filled(ctx, s, rows)
	if err != nil {
		return nil, err
	}
	e, err := d.start(engine.Options{})
	if err != nil {
		return nil, err
	}
	asked, err := d.newDecisions(e, live, s.rate)
	return &coldDatabase{database: d, asked: asked}, err
}

// measure is one round.
func (d *coldDatabase) measure(ctx context.Context, period time.Duration) error {
	claims := d.asked.engine.Stats(ctx).Claims
	before := lab.CPU()
	r, err := d.asked.run(ctx, period)
	if err != nil {
		return err
	}
	d.round = *r.All()
	describe(fmt.Sprintf("cold rows=%d", d.rows), &d.round)
	d.cpu += lab.CPU() - before
	d.claims += d.asked.engine.Stats(ctx).Claims - claims
	d.all.Merge(&d.round)
	return ctx.Err()
}

func (d *coldDatabase) close(ctx context.Context) error {
	if err := d.asked.engine.Close(ctx); err != nil {
		return err
	}
	return d.remove()
}
