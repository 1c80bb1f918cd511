package engine

import (
	"errors"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// finish answers all waiting requests, gives every lease back, and closes the store.
func (m *committer) finish() {
	<-m.swept
	<-m.newsroom.done
	m.starting.Stop()
	m.degraded.Store(true) // no new claims
	m.answerAll()
	m.probe.Stop()
	m.reminder.Stop()
	if m.conn.store.Load() == nil && m.reopen() != nil {
		return // the observer knows
	}
	m.err = m.giveBackAll()
	if store := m.conn.store.Swap(nil); store != nil {
		m.err = errors.Join(m.err, m.conn.leave(store.Store), store.Close())
	}
}

// giveBackAll settles all debts, and gives back all leases. A failed attempt is repeated once,
// because it may be the first to notice that the database was replaced.
func (m *committer) giveBackAll() error {
	err := m.giveBackOnce()
	if err != nil && m.reopen() == nil {
		err = m.giveBackOnce()
	}
	return err
}

func (m *committer) giveBackOnce() error {
	if err := m.catchUp(); err != nil { // debts first: there may not be time for all
		return err
	}
	if err := m.writer.punish(); err != nil {
		return err
	}
	b := &batch{done: make(chan struct{})}
	m.queue.resume(func(c cell, limit *Limit, lease limiter.Lease) {
		b.entries = append(b.entries, &entry{cell: c, limit: limit, batch: b, give: lease})
	})
	if err := m.writer.flushBatch(b); err != nil {
		return err
	}
	return m.writer.flush((*batch).returnLocked)
}

// answerAll commits until no request waits any more and all requests have spent their last grants.
func (m *committer) answerAll() {
	over := m.waiting.end()
	for more := true; more; m.drain() {
		select {
		case <-m.queue.woken:
		case <-over:
			more = false
		}
	}
	m.queue.setClosed(true)
	m.drain()
}
