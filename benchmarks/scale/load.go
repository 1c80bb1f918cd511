//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// sample is one decision.
type sample struct {
	took time.Duration
	mark bool // what is looked for happened meanwhile
}

// load asks an engine for decisions.
type load struct {
	engine *engine.Engine
	limit  *engine.Limit
	keys   *keys
	rate   int

	// marked returns a function that is called when a decision is there, and
	// tells whether it is to be marked. Nil marks none.
	marked func() func() bool
	// until ends the load; nil means that only time does.
	until <-chan struct{}
}

// run lets requests come for a time, and returns how long each took.
func (l *load) run(ctx context.Context, period time.Duration) ([]sample, error) {
	var mu sync.Mutex
	var samples []sample
	var wg sync.WaitGroup
	failed := 0
	start := time.Now()
	for due := time.Duration(0); due < period; due += time.Duration(l.keys.random.ExpFloat64() * float64(time.Second) / float64(l.rate)) {
		if l.ended() || ctx.Err() != nil {
			break
		}
		time.Sleep(due - time.Since(start))
		name := l.keys.next()
		wg.Go(func() {
			s, ok := l.decide(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			samples = append(samples, s)
			if !ok {
				failed++
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if failed > 0 {
		return nil, fmt.Errorf("%d of %d decisions were made without the store or refused", failed, len(samples))
	}
	return samples, nil
}

func (l *load) ended() bool {
	select {
	case <-l.until:
		return true
	default:
		return false
	}
}

func (l *load) decide(ctx context.Context, name string) (s sample, ok bool) {
	marked := func() bool { return false }
	if l.marked != nil {
		marked = l.marked()
	}
	start := time.Now()
	d := l.engine.Decide(ctx, nil, []engine.Debit{{Limit: l.limit, Key: []byte(name), Cost: 1}})
	s.took = time.Since(start)
	s.mark = marked()
	return s, d.Allowed && !d.Degraded
}

// split separates the samples that are marked from the others.
func split(samples []sample) (marked, others []time.Duration) {
	for _, s := range samples {
		if s.mark {
			marked = append(marked, s.took)
		} else {
			others = append(others, s.took)
		}
	}
	return marked, others
}

// quantile returns the q-th quantile, or 0 of nothing.
func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// cpuTime returns the processor time that this process has used.
func cpuTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
