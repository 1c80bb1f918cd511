package engine // engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// janitor removes expired rows and idle keys at every interval, on its own goroutine. It sweeps the
// store itself and leaves everything else to the committer.
type janitor struct {
	committer *committer
	clients   atomic.Pointer[[reputation.Levels]int64] // the number of clients of each level
	looked    int                                      // cells that it has looked at since its last rest

	changed chan struct{}   // holds a token when the interval was changed
	stop    <-chan struct{} // closed to stop the goroutine
	done    chan struct{}   // closed when it has ended
}

// keepUnused is the minimum time that an unused key stays in memory. If it is used again later it
// may have to be read from the store.
const keepUnused = time.Minute

// loop removes expired rows and idle keys at every interval, also if options change more often. It ends
// when stop is closed.
func (j *janitor) loop() {
	defer close(j.done)
	began, timer := time.Now(), time.NewTimer(j.committer.opts.now().CleanupInterval)
	defer timer.Stop()
	for {
		timer.Reset(j.keep() - time.Since(began))
		select {
		case <-timer.C:
			began = time.Now()
			j.clean()
		case <-j.changed:
		case <-j.committer.leases.others:
			j.share()
		case <-j.stop:
			return
		}
	}
}

// keep sets after how many sweeps an unused key is removed, and returns the interval between them.
func (j *janitor) keep() (interval time.Duration) {
	interval = j.committer.opts.now().CleanupInterval
	j.committer.table.Unused.Store(uint32(max(1, keepUnused/interval)))
	return interval
}

// clean does one cleanup. While the store can't be used it has no rows to sweep, and keys are known
// only to memory, idle or not.
func (j *janitor) clean() {
	if j.committer.degraded.Load() {
		j.committer.opts.Observer.Swept(0, 0, 0, nil)
		return
	}
	start := time.Now()
	keys := j.committer.table.sweep(j.committer.clock.Now(), j.awaitDone, j.rest)
	j.visit()
	j.committer.beginAsking()
	rows, err := j.sweepStore()
	if err == nil {
		err = j.committer.conn.join()
	}
	j.committer.opts.Observer.Swept(rows, keys, time.Since(start), err)
	if errors.Is(err, storage.ErrCorrupt) {
		j.committer.degrade(err) // until it is opened again, which sets the damage aside
	}
}

// Go interrupts a goroutine only every 10 ms, so requests would wait for one that looks at all cells.
// So the janitor rests for restFor after each restAfter cells, which take less than 200 µs.
const (
	restAfter = 512
	restFor   = 300 * time.Microsecond
)

// rest notes that the janitor has looked at so many cells, and rests if it is time.
func (j *janitor) rest(cells int) {
	if j.looked += cells; j.looked < restAfter {
		return
	}
	j.looked = 0
	select {
	case <-time.After(restFor):
	case <-j.stop:
	}
}

// visit looks at all cells. It charges the debts of keys without new requests to the store, and
// counts the clients of each level. Debts come from requests that couldn't wait for the store; these
// keys would stay in memory forever.
func (j *janitor) visit() {
	var counted [reputation.Levels]int64
	now, inTurn := j.committer.clock.Now(), j.inTurn()
	j.committer.table.each(func(c cell) {
		inTurn(j.chargeDebt(c))
		if client := c.client(); client != nil && c.ID == clientsID {
			if record := client.record.Load(); record != nil {
				counted[record.LevelAt(now)]++
			}
		}
		j.rest(1)
	})
	j.clients.Store(&counted)
}

// chargeDebt charges the debt of a key, and returns the batch that does, or nil if there is none.
func (j *janitor) chargeDebt(c cell) *batch {
	c = c.lockPresent()
	defer c.Unlock()
	if c.Dead() || c.rare().inFlight > 0 || !c.rare().local.hasDebts() {
		return nil
	}
	return j.committer.queue.join(func(b *batch) { b.chargeLocked(c) })
}

// inTurn returns a function to be called with each batch that entries were added to, or nil. After
// each flushSize calls it waits for the batch, so that no claim waits behind all of them.
func (j *janitor) inTurn() func(*batch) {
	added := 0
	return func(b *batch) {
		if b == nil {
			return
		}
		if added++; added%flushSize == 0 {
			j.awaitDone(b.done)
		}
	}
}

// awaitDone waits until done is closed, or the engine is closed.
func (j *janitor) awaitDone(done <-chan struct{}) {
	select {
	case <-done:
	case <-j.stop:
	}
}

// SweepStore removes all expired rows from the store at once.
func (e *Engine) SweepStore() error {
	for {
		swept, err := e.committer.conn.sweepStep(context.Background())
		if err != nil || !swept.More {
			return err
		}
	}
}

// sweepStore removes expired rows step by step. After each step it waits for the duration of that
// step, so that claims come first. A sweep longer than the interval goes on at the next cleanup.
func (j *janitor) sweepStore() (rows int64, err error) {
	for until := time.Now().Add(j.committer.opts.now().CleanupInterval); ; {
		if j.committer.degraded.Load() {
			return rows, nil
		}
		start := time.Now()
		swept, err := j.committer.conn.sweepStep(context.Background())
		rows += swept.Rows
		if err != nil || !swept.More || !time.Now().Before(until) {
			return rows, err
		}
		select {
		case <-time.After(time.Since(start)):
		case <-j.stop:
			return rows, nil
		}
	}
}
