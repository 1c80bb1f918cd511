package engine // engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/internal/engine/clock"
)

// Engine decides about requests. It may be used from any number of goroutines.
type Engine struct {
	opts      Options
	clock     *clock.Clock
	table     *cells
	committer committer
	janitor   janitor
	shadows   atomic.Int64 // shadow decisions that wait for the store
	timers    timers       // of requests that wait for it

	closeOnce sync.Once
	stop      chan struct{} // closed to stop the goroutines
}

var (
	errNoStore = errors.New("the store could not be opened")
	errTimeout = errors.New("the store did not answer in time")
	errNotSent = errors.New("the store can't be used at the moment")
)

// New starts an engine, which opens its store in the background. Decisions can be requested
// immediately.
func New(opts Options) *Engine {
	opts = opts.withDefaults()
	e := &Engine{opts: opts, clock: clock.New(opts.Clock), stop: make(chan struct{})}
	e.opts.follow()
	e.janitor = janitor{committer: &e.committer, changed: make(chan struct{}, 1), stop: e.stop,
		done: make(chan struct{})}
	e.table = newCells(opts.MaxKeys, e.committer.leases.giveBackLocked)
	e.committer.init(&e.opts, e.clock, e.table, e.stop, e.janitor.done)
	go e.committer.loop()
	go e.committer.poller.loop()
	e.janitor.keep()
	go e.janitor.loop()
	return e
}

// Change changes the options of a running engine: StoreTimeout, CleanupInterval, DegradedPercent and
// MaxKeys at once, and Open with the next store. With reopen Change waits until the engine has
// opened that, or ctx ends. A store that doesn't continue the present one is charged with the usage
// that memory knows. Other options stay.
func (e *Engine) Change(ctx context.Context, to Options, reopen bool) error {
	to = to.withDefaults()
	e.opts.changed.Store(&to)
	e.table.Max.Store(int64(to.MaxKeys))
	put(e.janitor.changed)
	if !reopen {
		return nil
	}
	err := e.committer.queue.run(ctx, e.committer.change)
	if errors.Is(err, ErrUnavailable) {
		e.committer.probe.Reset(0) // the outage may end
		return nil
	}
	return err
}

// Ready returns a channel that is closed when the store has been opened, or has failed to open for
// the first time.
func (e *Engine) Ready() <-chan struct{} { return e.committer.ready }

// Close answers the waiting requests, gives back unspent units, and closes the store. Later
// decisions are made from memory alone, with the limits of a store that can't be used. If ctx ends
// first, Close returns its error and the rest happens in the background.
func (e *Engine) Close(ctx context.Context) error {
	e.closeOnce.Do(func() { close(e.stop) })
	select {
	case <-e.committer.done:
		return e.committer.err
	case <-ctx.Done():
		return fmt.Errorf("engine: close: %w", ctx.Err())
	}
}

// Now returns the engine's time in nanoseconds since the Unix epoch: the store's time, as far as it
// is known.
func (e *Engine) Now() int64 { return e.clock.Now() }

// Lasting returns the engine's time without the corrections that became necessary because a wall
// clock was wrong. Anything that must last uses it. known reports whether a store has provided the
// time yet, rather than the wall clock alone.
func (e *Engine) Lasting() (now int64, known bool) { return e.clock.Lasting() }
