package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// open opens the store for the first time.
func (m *committer) open() {
	defer close(m.ready)
	if err := m.reopen(); err != nil {
		m.degrade(err)
		return
	}
	m.charged = m.conn.store.Load().Store // memory knows nothing yet
	if err := m.conn.join(); err != nil {
		m.degrade(err)
		return
	}
	m.awaitNotes()
}

// awaitNotes requests the notes of the store and waits for them. Decisions wait for them as they
// wait for the store to be opened.
func (m *committer) awaitNotes() {
	if _, ok := ability[storage.Notebook](&m.conn); !ok || m.opts.Noted == nil {
		return
	}
	m.newsroom.asked <- question{m.conn.store.Load(), storage.Seen{Resets: m.conn.resets.Load(), Changes: m.changes}}
	select {
	case <-m.newsroom.begun:
	case <-m.started:
	case <-m.stop:
	}
}

// reopen opens the store again. If the store doesn't continue the previous one, memory holds
// nothing that was reset in it, because memory only gives back units charged to the same store.
func (m *committer) reopen() error {
	if err := m.conn.reopen(); err != nil {
		return err
	}
	continues := m.charged != nil && m.conn.store.Load().Continues(m.charged)
	if !continues {
		m.conn.resets.Store(m.conn.newest)
	}
	if m.conn.onNetwork.Load() {
		m.looking.Reset(cmp.Or(m.opts.resetInterval, newsInterval))
	}
	return m.beginNews(continues)
}

// startTimeout is how long after the start of an engine decisions wait for its store to be opened.
// A database is opened, or found to be unusable, in milliseconds; a busy machine may take longer.
const startTimeout = 2 * time.Second

// awaitOpen waits for the store to be opened for the first time, up to
// startTimeout after the engine was started.
func (m *committer) awaitOpen(ctx context.Context) {
	select {
	case <-m.ready:
		return
	default:
	}
	select {
	case <-m.ready:
	case <-m.started:
	case <-ctx.Done():
	}
}

// degrade begins an outage: the store is not used until recover succeeds. Any goroutine without
// locks may call it. The batch under way stays with the committer.
func (m *committer) degrade(err error) {
	if !m.degraded.CompareAndSwap(false, true) {
		return
	}
	m.queue.setClosed(true)
	for o := m.queue.takeOrder(); o != nil; o = m.queue.takeOrder() {
		o.answer(ErrUnavailable)
	}
	if b := m.queue.take(); b != nil {
		b.err = errNotSent
		m.leases.undo(b.entries, b.err)
		close(b.done)
	}
	m.opts.Observer.Outage()
	probe, remind, tell := m.outage.begin(err, m.conn.lastProbe())
	m.probe.Reset(probe)
	m.reminder.Reset(remind)
	if tell {
		m.opts.Observer.Degraded(0, err)
	}
}

// remind reports that the outage continues. It runs on a timer's goroutine, because the store may
// block the committer for any time.
func (m *committer) remind() {
	if !m.degraded.Load() || isClosed(m.stop) {
		return
	}
	since, cause := m.outage.remind()
	m.reminder.Reset(remindAfter)
	m.opts.Observer.Degraded(since, cause)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// errChanged is the cause of the outage in which the engine moves to another store.
var errChanged = errors.New("the store is being changed for another")

// change opens the store as the options in force say. If that is another one than before, memory
// decides until the store is charged with what memory knows.
func (m *committer) change() error {
	err := m.reopen()
	if err == nil && m.conn.store.Load().Continues(m.charged) {
		err = m.conn.join()
	} else {
		err = cmp.Or(err, errChanged)
	}
	if err != nil {
		m.degrade(err)
		m.recover()
	}
	return nil
}

// resume opens the store and charges it with what memory admitted without it.
func (m *committer) resume() error {
	for _, step := range []func() error{m.reopen, m.writer.beWritable, m.catchUp, m.writer.punish, m.conn.join} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// recover tries to use the store again.
func (m *committer) recover() {
	if !m.degraded.Load() {
		return
	}
	if err := m.resume(); err != nil {
		probe, since := m.outage.goOn(err, m.conn.lastProbe())
		m.probe.Reset(probe)
		if since > 0 {
			m.opts.Observer.Degraded(since, err)
		}
		return
	}
	m.reminder.Stop()
	lasted, tell := m.outage.end()
	m.queue.setClosed(false)
	m.degraded.Store(false)
	m.leases.resume()
	if tell {
		m.opts.Observer.Recovered(lasted)
	}
}
