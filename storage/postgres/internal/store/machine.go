package store

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// machine is an open store among those of all machines. Its row in the table machines has the number of its batches
// that took effect. Each batch writes it in its own transaction.
type machine struct {
	order int64 // among the stores that this process has opened
	id    int64 // of the row

	epoch int64           // of the tables, when the store was opened
	seen  map[int64]int64 // the batches of each machine, when the store was opened

	sent    int64 // the batches that were acknowledged; guarded by the lock of batches
	pending bool  // whether one more may have taken effect; guarded as sent

	acknowledged atomic.Int64 // the same as sent
	lost         atomic.Bool  // the server has lost acknowledged batches
}

// opened counts the stores that this process has opened.
var opened atomic.Int64

func newMachine() *machine { return &machine{order: opened.Add(1), id: rand.Int64()} }

// continues reports whether the server still has the batches of an earlier machine.
func (m *machine) continues(earlier *machine) bool {
	if earlier.epoch != m.epoch || earlier.lost.Load() || m.lost.Load() {
		return false
	}
	if earlier.order >= m.order {
		return true // it was opened later, on the same tables
	}
	batches, known := m.seen[earlier.id]
	return known && batches >= earlier.acknowledged.Load()
}

// machineStays is how long the row of an idle machine is kept, in nanoseconds. A machine without a row
// charges its known usage again.
const machineStays = int64(24 * time.Hour)

// register creates the row, and notes the batches of other machines. Batches of earlier
// stores of this process may still be under way, and lock their rows until they end. register waits for
// these locks, so that none takes effect afterwards.
func (m *machine) register(ctx context.Context, p *Place, c conn) error {
	suspects := p.suspects()
	sql := p.begin()
	for _, id := range suspects {
		sql.add("SELECT id, batches FROM ", table("machines"), " WHERE id = ", id, " FOR UPDATE").end()
	}
	sql.add("INSERT INTO ", table("machines"), " (id, batches, time, expires) VALUES (", m.id, ", 0, 0, ", serverClock,
		" + ", machineStays, ")").end()
	sql.add("SELECT id, batches FROM ", table("machines")).end()
	sql.selectMeta(false).add("COMMIT")
	results, err := p.run(ctx, c, sql)
	if err != nil {
		p.rollback(ctx, c)
		return err
	}
	if err := hasResults(results, len(suspects)+2); err != nil {
		return err
	}
	var now meta
	if err := now.read(results[len(results)-1]); err != nil {
		return err
	}
	m.epoch, m.seen = now.epoch, make(map[int64]int64)
	for _, rows := range results[:len(results)-1] {
		for _, row := range rows {
			var id, batches int64
			if err := numbers(row, &id, &batches); err != nil {
				return err
			}
			m.seen[id] = batches
		}
	}
	p.acquit(suspects)
	return nil
}

// isCurrentLocked returns an error unless the row of the machine counts all acknowledged batches. No batch
// may be under way: the caller has waited for the lock on the row.
func (m *machine) isCurrentLocked(rows result) error {
	var batches int64
	if len(rows) == 0 {
		return m.hasLost()
	}
	if err := numbers(rows[0], &batches); err != nil {
		return err
	}
	if m.pending && batches == m.sent+1 {
		m.acknowledgeLocked()
	}
	if batches != m.sent {
		return m.hasLost()
	}
	m.pending = false
	return nil
}

func (m *machine) acknowledgeLocked() {
	m.sent++
	m.pending = false
	m.acknowledged.Store(m.sent)
}

func (m *machine) hasLost() error {
	m.lost.Store(true)
	return storage.ErrLostWrites
}

// isSame returns an error if the tables were replaced.
func (m *machine) isSame(now *meta) error {
	if now.oldest > schemaVersion || now.epoch != m.epoch { // opening a later version's tables returns an error
		return m.hasLost()
	}
	return nil
}

// The pauses before an unreachable server is asked again.
const (
	firstWait = time.Millisecond
	lastWait  = 50 * time.Millisecond
)

// await waits, and reports whether the context has not ended.
func await(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
