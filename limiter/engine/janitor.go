package engine

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// janitorLoop removes expired rows and idle keys at every interval. It ends when
// stop is closed.
func (e *Engine) janitorLoop() {
	defer close(e.swept)
	tick := time.NewTicker(e.opts.CleanupInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			e.clean()
		case <-e.stop:
			return
		}
	}
}

// clean does one round. While the store can't be used there is nothing in it to
// sweep, and memory is all that knows the keys, idle or not.
func (e *Engine) clean() {
	if e.degraded.Load() {
		e.opts.Observer.Swept(0, 0, nil)
		return
	}
	keys := e.table.sweep(e.clock.now(), e.awaitDone)
	e.chargeDebts()
	e.countClients()
	e.beginAsking()
	rows, err := e.sweepStore()
	if err == nil {
		err = e.join()
	}
	e.opts.Observer.Swept(rows, keys, err)
	if errors.Is(err, storage.ErrCorrupt) {
		e.degrade(err) // until it is opened again, which sets the damage aside
	}
}

// countClients counts the clients of each level.
func (e *Engine) countClients() {
	var counted [reputation.Levels]int64
	now := e.clock.now()
	e.table.each(func(c *cell) {
		if c.client == nil {
			return
		}
		if record := c.client.record.Load(); record != nil {
			counted[record.LevelAt(now)]++
		}
	})
	e.clients.Store(&counted)
}

// inTurn returns a function to be called with the batch that something was added to, or
// nil. After each flushBatch of them it waits for the batch, so that no claim waits
// behind all of them.
func (e *Engine) inTurn() func(*batch) {
	added := 0
	return func(b *batch) {
		if b == nil {
			return
		}
		if added++; added%flushBatch == 0 {
			e.awaitDone(b)
		}
	}
}

// awaitDone waits until a batch is done, or the engine is closed.
func (e *Engine) awaitDone(b *batch) {
	select {
	case <-b.done:
	case <-e.stop:
	}
}

// chargeDebts charges to the store what memory has admitted for requests that couldn't
// wait for it, of keys that no request has come for since. Otherwise they would never be
// dropped from memory.
func (e *Engine) chargeDebts() {
	inTurn := e.inTurn()
	e.table.each(func(c *cell) {
		var b *batch
		c.mu.Lock()
		if !c.dead && c.inFlight == 0 && c.local != nil && len(c.local.debts) > 0 {
			b = e.queue.join(func(b *batch) { b.chargeLocked(c) })
		}
		c.mu.Unlock()
		inTurn(b)
	})
}

// sweepStore removes expired rows step by step. Between two steps it stays away
// from the store for as long as the last one took, so that claims come first.
func (e *Engine) sweepStore() (rows int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), e.opts.CleanupInterval)
	defer cancel()
	for {
		store := e.store.Load()
		if store == nil || e.degraded.Load() {
			return rows, nil
		}
		start := time.Now()
		swept, err := e.sweepStep(ctx, store)
		rows += swept.Rows
		if err != nil || !swept.More {
			return rows, err
		}
		select {
		case <-time.After(time.Since(start)):
		case <-e.stop:
			return rows, nil
		}
	}
}

// sweepStep takes one step, as of the time of the store. Where that was set
// meanwhile, the next round goes on.
func (e *Engine) sweepStep(ctx context.Context, store *opened) (storage.Swept, error) {
	term := e.term(new(stamp))
	swept, err := e.within(store, &term).Sweep(ctx, e.clock.now())
	if errors.Is(err, storage.ErrTerm) {
		return storage.Swept{}, nil
	}
	return swept, err
}

// roomSteps is how many steps of a sweep are taken before a store is used again
// after a fault.
const roomSteps = 512

// makeRoom sweeps a part of the store. A store that is full can't be used until
// somebody does.
func (e *Engine) makeRoom() {
	for range roomSteps {
		swept, err := e.sweepStep(context.Background(), e.store.Load())
		if err != nil || !swept.More {
			return // if it matters, what comes next fails as well
		}
	}
}
