//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// smallest is the database that larger ones are compared to.
const smallest = 10_000

// coldDatabase is a database of which cold decisions are measured.
type coldDatabase struct {
	*database
	engine *engine.Engine
	load   *load
	p99s   []time.Duration // of each round
	all    []time.Duration
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
	for round := range s.rounds {
		for _, d := range databases {
			if err := d.measure(ctx, s.period); err != nil {
				return err
			}
			d.ratios = append(d.ratios, ratio(d.p99s[round], databases[0].p99s[round]))
		}
	}
	for _, d := range databases {
		describe(fmt.Sprintf("cold rows=%d all rounds cpu/claim=%s", d.rows, d.cpu/time.Duration(max(d.claims, 1))), d.all)
		ratios(fmt.Sprintf("p99 cold rows=%d to rows=%d", d.rows, smallest), "2 or less", d.ratios)
		fmt.Printf("ratio p99 of all rounds: %.2f\n", ratio(quantile(d.all, 0.99), quantile(databases[0].all, 0.99)))
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
	bytes, err := d.bytes()
	if err != nil {
		return nil, err
	}
	fmt.Printf("size live rows=%d bytes/row=%.1f (target 100)\n", rows, float64(bytes)/float64(rows))
	limit, err := lab.NewLimit(live)
	if err != nil {
		return nil, err
	}
	e, err := d.start(engine.Options{})
	return &coldDatabase{database: d, engine: e, load: &load{engine: e, limit: limit, keys: d.keys(1), rate: s.rate}}, err
}

// measure is one round.
func (d *coldDatabase) measure(ctx context.Context, period time.Duration) error {
	claims := d.engine.Stats(ctx).Claims
	before, err := cpuTime()
	if err != nil {
		return err
	}
	samples, err := d.load.run(ctx, period)
	if err != nil {
		return err
	}
	after, err := cpuTime()
	if err != nil {
		return err
	}
	claims = d.engine.Stats(ctx).Claims - claims
	_, times := split(samples)
	describe(fmt.Sprintf("cold rows=%d", d.rows), times)
	d.cpu += after - before
	d.claims += claims
	d.all = append(d.all, times...)
	d.p99s = append(d.p99s, quantile(times, 0.99))
	return nil
}

func (d *coldDatabase) close(ctx context.Context) error {
	if err := d.engine.Close(ctx); err != nil {
		return err
	}
	return d.remove()
}
