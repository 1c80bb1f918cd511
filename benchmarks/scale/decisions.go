//go:build unix

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/load"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// The kinds of decisions.
const (
	usual  load.Kind = iota
	marked           // the event of interest happened meanwhile
	failed           // made without the store, or refused
)

// decisions asks an engine for decisions at random moments.
type decisions struct {
	engine *engine.Engine
	limit  *engine.Limit
	rate   float64 // per second

	mu   sync.Mutex
	keys *keys // guarded by mu

	// mark returns a function that is called after a decision and reports whether the decision is
	// marked. Nil marks none.
	mark func() func() bool
}

// newDecisions returns decisions about keys of a database.
func (d *database) newDecisions(e *engine.Engine, p limiter.Params, rate int) (*decisions, error) {
	limit, err := lab.NewLimit(p)
	return &decisions{engine: e, limit: limit, rate: float64(rate), keys: d.keys()}, err
}

// waiting is how many decisions may wait at a time. Those that come then are measured from when they
// were due.
const waiting = 256

// run asks for some time, or until ctx ends.
func (d *decisions) run(ctx context.Context, period time.Duration) (load.Report, error) {
	return d.send(ctx, load.Load{Rate: d.rate, Jitter: true, Duration: period}, waiting)
}

// callers is how many ask at a time where there is no rate.
const callers = 64

// ask makes so many decisions, as fast as they come.
func (d *decisions) ask(ctx context.Context, n int64) error {
	_, err := d.send(ctx, load.Load{Requests: n}, callers)
	return err
}

func (d *decisions) send(ctx context.Context, l load.Load, clientCount int) (load.Report, error) {
	waited := context.WithoutCancel(ctx) // requests that were sent are answered
	clients := make([]load.Client, clientCount)
	for i := range clients {
		clients[i] = func(ctx context.Context, _ int64) (load.Kind, error) { return d.decide(waited, d.next()), nil }
	}
	r, err := load.Run(ctx, l, clients)
	if n := r.Count(failed); n > 0 && err == nil {
		err = fmt.Errorf("%d of %d decisions were made without the store or refused", n, r.All().Count())
	}
	return r, err
}

func (d *decisions) next() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keys.next()
}

func (d *decisions) decide(ctx context.Context, name string) load.Kind {
	happened := func() bool { return false }
	if d.mark != nil {
		happened = d.mark()
	}
	decision := d.engine.Decide(ctx, nil, []engine.Debit{{Limit: d.limit, Key: []byte(name), Cost: 1}})
	switch {
	case !decision.Allowed || decision.Degraded:
		return failed
	case happened():
		return marked
	}
	return usual
}
