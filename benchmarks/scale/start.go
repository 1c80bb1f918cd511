//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/stats"
	"github.com/caddy-tally/caddy-tally/internal/engine"
)

const (
	// starts is how often each start is measured.
	starts = 11
	// logged is how many rows are in the log only after a crash: about as many
	// as one can hold before it is cut off.
	logged = 25_000
)

// start compares the time from the start of an engine to its first answer
// with an empty database, with a full one, and with a full one after a crash.
func (s settings) start(ctx context.Context) error {
	empty, err := filled(ctx, s, 0)
	if err != nil {
		return err
	}
	full, err := filled(ctx, s, s.some)
	if err != nil {
		return err
	}
	crashed, err := full.crash(ctx, s)
	if err != nil {
		return err
	}
	var times [3][]float64 // in milliseconds
	for range starts {
		for i, d := range []*database{empty, full, crashed} {
			took, err := d.firstAnswer(ctx, s)
			if err != nil {
				return err
			}
			times[i] = append(times[i], took.Seconds()*1000)
		}
	}
	empties := stats.Median(times[0])
	fmt.Printf("first answer, empty: %s ms\n", stats.Spread(times[0]))
	for i, what := range []string{"rows", "rows and a log after a crash"} {
		took := times[1+i]
		fmt.Printf("first answer, %d %s: %s ms, %.2f ms more than empty (target 100 ms)\n", s.some, what, stats.Spread(took), stats.Median(took)-empties)
	}
	return nil
}

// firstAnswer starts an engine on a copy of the database and asks it once.
func (d *database) firstAnswer(ctx context.Context, s settings) (time.Duration, error) {
	c, err := d.copy(s)
	if err != nil {
		return 0, err
	}
	limit, err := lab.NewLimit(live)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	e, err := c.start(engine.Options{})
	if err != nil {
		return 0, err
	}
	kind := (&decisions{engine: e, limit: limit}).decide(ctx, key(0))
	took := time.Since(start)
	if kind == failed {
		return 0, fmt.Errorf("the first decision was made without the store")
	}
	if err := e.Close(ctx); err != nil {
		return 0, err
	}
	return took, c.remove()
}

// crash returns the database as it is after a crash: with rows that are in the
// log only.
func (d *database) crash(ctx context.Context, s settings) (*database, error) {
	running, err := d.copy(s)
	if err != nil {
		return nil, err
	}
	e, err := running.start(engine.Options{})
	if err != nil {
		return nil, err
	}
	asked, err := running.newDecisions(e, live, 10*s.rate)
	if err != nil {
		return nil, err
	}
	if _, err := asked.run(ctx, time.Duration(logged)*time.Second/time.Duration(10*s.rate)); err != nil {
		return nil, err
	}
	crashed, err := running.copy(s)
	if err != nil {
		return nil, err
	}
	// The index is made anew after a crash.
	if err := os.Remove(crashed.Database() + "-shm"); err != nil {
		return nil, err
	}
	info, err := os.Stat(crashed.Database() + "-wal")
	if err != nil {
		return nil, err
	}
	fmt.Printf("raw log after a crash: %s bytes=%d\n", filepath.Base(info.Name()), info.Size())
	return crashed, e.Close(ctx)
}
