package engine // store

import (
	"errors"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// finish answers all waiting requests, gives every lease back, and closes the store. It tries that once more after a
// failure, which may be the first to say that the database was replaced or is damaged.
func (cm *committer) finish() {
	<-cm.swept
	<-cm.poller.done
	cm.starting.Stop()
	cm.degraded.Store(true) // no new claims
	cm.answerAll()
	cm.probe.Stop()
	cm.reminder.Stop()
	if cm.conn.store.Load() == nil && cm.reopen() != nil {
		return // the observer knows
	}
	if cm.err = cm.giveBackAll(); cm.err == nil {
		cm.err = cm.leave()
	}
	if cm.err != nil && cm.reopen() == nil {
		cm.err = errors.Join(cm.giveBackAll(), cm.leave())
	}
}

// leave closes the store.
func (cm *committer) leave() error {
	store := cm.conn.store.Swap(nil)
	return errors.Join(cm.conn.leave(store.Store), store.Close())
}

// giveBackAll settles all debts, and gives back all leases.
func (cm *committer) giveBackAll() error {
	if err := cm.catchUp(); err != nil { // debts first: there may not be time for all
		return err
	}
	if err := cm.writer.punish(); err != nil {
		return err
	}
	b := &batch{done: make(chan struct{})}
	cm.queue.resume(func(c cell, limit *Limit, lease limiter.Lease) {
		b.entries = append(b.entries, &entry{cell: c, limit: limit, batch: b, give: lease})
	})
	if err := cm.writer.flushBatch(b); err != nil {
		return err
	}
	return cm.writer.flush((*batch).returnLocked)
}

// answerAll commits until no request waits any more and all requests have spent their last grants.
func (cm *committer) answerAll() {
	over := cm.waiting.end()
	for more := true; more; cm.drain() {
		select {
		case <-cm.queue.woken:
		case <-over:
			more = false
		}
	}
	cm.queue.setClosed(true)
	cm.drain()
}
