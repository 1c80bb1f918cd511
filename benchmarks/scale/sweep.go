//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/stats"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

const (
	// sweepEvery is when the janitor comes, and also how long it may take.
	sweepEvery = 30 * time.Second
	// longAgo is when rows were written that have expired.
	longAgo = 3 * month
	// endless is longer than anything here takes.
	endless = time.Hour
)

// sweep compares cold decisions while the janitor deletes rows with those
// before it comes, of one engine, with as many live rows as expired ones.
func (s settings) sweep(ctx context.Context) error {
	for _, p := range []limiter.Params{
		live,
		{Algorithm: limiter.TokenBucket, Amount: amount, Window: month},
	} {
		if err := s.sweepOf(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (s settings) sweepOf(ctx context.Context, p limiter.Params) error {
	d, err := newDatabase(s)
	if err != nil {
		return err
	}
	if err := d.fill(ctx, p, d.inPasses(s.some, s.some), passBatch, time.Now().Add(-longAgo)); err != nil {
		return err
	}
	if err := d.fill(ctx, p, d.inPasses(0, s.some), passBatch, time.Now()); err != nil {
		return err
	}
	var values []float64
	for range s.repeats {
		r, err := d.sweepCopy(ctx, s, p)
		if err != nil {
			return err
		}
		values = append(values, r)
	}
	ratios(fmt.Sprintf("p99 cold while %d of %d rows of %v are deleted to before", s.some, 2*s.some, p.Algorithm), "2 or less", values)
	return d.remove()
}

// sweepCopy measures one sweep, of a copy of the database, and returns the ratio
// of the p99s.
func (d *database) sweepCopy(ctx context.Context, s settings, p limiter.Params) (float64, error) {
	c, err := d.copy(s)
	if err != nil {
		return 0, err
	}
	swept, stop := context.WithCancel(ctx)
	defer stop()
	w := &sweepWatch{stop: stop}
	e, err := c.start(engine.Options{Open: w.opener(c.OpenStore), Observer: w, CleanupInterval: sweepEvery})
	if err != nil {
		return 0, err
	}
	asked, err := c.newDecisions(e, p, s.rate)
	if err != nil {
		return 0, err
	}
	asked.mark, asked.keys.known = w.mark, s.some // the others are to be deleted
	r, err := asked.run(swept, endless)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return 0, err
	}
	describe(fmt.Sprintf("before the sweep, %v", p.Algorithm), &r.Took[usual])
	describe(fmt.Sprintf("while rows are deleted, %v", p.Algorithm), &r.Took[marked])
	describe("steps that delete", &w.deletes)
	describe("other steps", &w.others)
	fmt.Printf("raw swept rows=%d seconds=%.1f error=%v\n", w.rows, w.took.Seconds(), w.err)
	if err := e.Close(ctx); err != nil {
		return 0, err
	}
	return p99(&r.Took[marked], &r.Took[usual]), c.remove()
}

// sweepWatch knows when the janitor is at work in the store.
type sweepWatch struct {
	lab.Silent

	active atomic.Bool
	begun  time.Time
	once   sync.Once
	stop   func() // called after the first sweep; the fields below are final then

	deletes stats.Histogram // how long each step took that deleted something
	others  stats.Histogram // those that only looked, or gave pages back
	rows    int64
	took    time.Duration
	err     error
}

func (w *sweepWatch) opener(open storage.Opener) storage.Opener {
	return func(ctx context.Context) (storage.Store, error) {
		store, err := open(ctx)
		return &watchedStore{store, w}, err
	}
}

// mark implements decisions.mark.
func (w *sweepWatch) mark() func() bool {
	before := w.active.Load()
	return func() bool { return before || w.active.Load() }
}

// watchedStore tells a sweepWatch of its sweeps.
type watchedStore struct {
	storage.Store
	watch *sweepWatch
}

func (s *watchedStore) Sweep(ctx context.Context, now int64) (storage.Swept, error) {
	start := time.Now()
	if s.watch.active.CompareAndSwap(false, true) {
		s.watch.begun = start
	}
	swept, err := s.Store.Sweep(ctx, now)
	steps := &s.watch.others
	if swept.Rows > 0 {
		steps = &s.watch.deletes
	}
	steps.Add(time.Since(start))
	return swept, err
}

// Swept implements engine.Observer.
func (w *sweepWatch) Swept(rows int64, _ int, _ time.Duration, err error) {
	w.once.Do(func() {
		w.rows, w.err, w.took = rows, err, time.Since(w.begun)
		w.active.Store(false)
		w.stop()
	})
}
