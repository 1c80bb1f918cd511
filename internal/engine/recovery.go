package engine // outage

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// open opens the store for the first time.
func (cm *committer) open() {
	defer close(cm.ready)
	if err := cm.reopen(); err != nil {
		cm.degrade(err)
		return
	}
	cm.charged = cm.conn.store.Load().Store // memory knows nothing yet
	if err := cm.conn.join(); err != nil {
		cm.degrade(err)
		return
	}
	cm.awaitNotes()
}

// awaitNotes requests the notes of the store and waits for them. Decisions wait for them as they
// wait for the store to be opened.
func (cm *committer) awaitNotes() {
	if cm.conn.network() == nil || cm.opts.Noted == nil {
		return
	}
	cm.poller.asked <- question{cm.conn.store.Load(), storage.Seen{Resets: cm.conn.resets.Load(), Changes: cm.changes}}
	select {
	case <-cm.poller.begun:
	case <-cm.started:
	case <-cm.stop:
	}
}

// reopen opens the store again. If the store doesn't continue the previous one, memory holds
// nothing that was reset in it, because memory only gives back units charged to the same store.
func (cm *committer) reopen() error {
	if err := cm.conn.reopen(); err != nil {
		return err
	}
	continues := cm.charged != nil && cm.conn.store.Load().Continues(cm.charged)
	if !continues {
		cm.conn.resets.Store(cm.conn.newest)
	}
	if cm.conn.onNetwork.Load() {
		cm.looking.Reset(cmp.Or(cm.opts.resetInterval, newsInterval))
	}
	return cm.beginNews(continues)
}

// startTimeout is how long after the start of an engine decisions wait for its store to be opened.
// A database is opened, or found to be unusable, in milliseconds; a busy machine may take longer.
const startTimeout = 2 * time.Second

// awaitOpen waits for the store to be opened for the first time, up to
// startTimeout after the engine was started.
func (cm *committer) awaitOpen(ctx context.Context) {
	select {
	case <-cm.ready:
		return
	default:
	}
	select {
	case <-cm.ready:
	case <-cm.started:
	case <-ctx.Done():
	}
}

// degrade begins an outage: the store is not used until recover succeeds. Any goroutine without
// locks may call it. The batch under way stays with the committer.
func (cm *committer) degrade(err error) {
	if !cm.degraded.CompareAndSwap(false, true) {
		return
	}
	cm.queue.setClosed(true)
	for t := cm.queue.takeTask(); t != nil; t = cm.queue.takeTask() {
		t.answer(ErrUnavailable)
	}
	if b := cm.queue.take(); b != nil {
		b.err = errNotSent
		cm.leases.undo(b.entries, b.err)
		close(b.done)
	}
	cm.opts.Observer.Outage()
	probe, remind, tell := cm.outage.begin(err, cm.conn.lastProbe())
	cm.probe.Reset(probe)
	cm.reminder.Reset(remind)
	if tell {
		cm.opts.Observer.Degraded(0, err)
	}
}

// remind reports that the outage continues. It runs on a timer's goroutine, because the store may
// block the committer for any time.
func (cm *committer) remind() {
	if !cm.degraded.Load() || isClosed(cm.stop) {
		return
	}
	since, cause := cm.outage.remind()
	cm.reminder.Reset(remindAfter)
	cm.opts.Observer.Degraded(since, cause)
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
func (cm *committer) change() error {
	err := cm.reopen()
	if err == nil && cm.conn.store.Load().Continues(cm.charged) {
		err = cm.conn.join()
	} else {
		err = cmp.Or(err, errChanged)
	}
	if err != nil {
		cm.degrade(err)
		cm.recover()
	}
	return nil
}

// resume opens the store and charges it with what memory admitted without it.
func (cm *committer) resume() error {
	for _, step := range []func() error{cm.reopen, cm.writer.beWritable, cm.catchUp, cm.writer.punish, cm.conn.join} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// recover tries to use the store again.
func (cm *committer) recover() {
	if !cm.degraded.Load() {
		return
	}
	if err := cm.resume(); err != nil {
		probe, since := cm.outage.goOn(err, cm.conn.lastProbe())
		cm.probe.Reset(probe)
		if since > 0 {
			cm.opts.Observer.Degraded(since, err)
		}
		return
	}
	cm.reminder.Stop()
	lasted, tell := cm.outage.end()
	cm.queue.setClosed(false)
	cm.degraded.Store(false)
	cm.leases.resume()
	if tell {
		cm.opts.Observer.Recovered(lasted)
	}
}
