package engine // store

import (
	"cmp"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine/clock"
	"github.com/caddy-tally/caddy-tally/storage"
)

// committer owns the store. Its goroutine is the only one that claims, charges and gives back units
// in transactions. Other goroutines add to its queue and wait for a batch. It opens the store,
// stops using it when it fails, and opens it again. Of its parts, writer makes the calls, leases
// moves units between cells and the queue, and eraser drops state that the store has forgotten.
//
// Invariants: units given back by a cell are in the queue as soon as they leave the cell, before
// any later claim for the key. So no claim is refused for lack of units that this process is about
// to give back. Before a batch is done, its cells hold the granted units. An outage closes the
// queue, so that no request waits while it lasts.
type committer struct {
	opts  *Options
	clock *clock.Clock
	table *cells
	conn  connection

	queue    queue
	offenses offenses // to be recorded in the store
	waiting  waiting  // decisions that may wait for a batch

	leases leases
	writer writer
	eraser eraser

	degraded atomic.Bool // the store can't be used
	outage   outage
	probe    *time.Timer // fires when the store is worth another try
	reminder *time.Timer // reports that an outage continues

	losses losses
	asking atomic.Bool // the next turn asks for the store's time

	poller poller // asks the store for changes by other processes

	ready    chan struct{} // closed when the store was opened or failed to open
	started  chan struct{} // closed when there was enough time to open it
	starting *time.Timer   // closes started

	stop  <-chan struct{} // closed to stop the goroutine
	swept <-chan struct{} // closed when the janitor, which uses the store as well, has ended
	done  chan struct{}   // closed when the goroutine has ended
	err   error           // of closing the store; written before done is closed

	// These are for the goroutine only.
	charged   storage.Store // the store charged with the known usage; nil before the first one is open
	looking   *time.Ticker  // fires when the store is to be asked for resets
	gathering *time.Timer   // fires when a batch has filled up for long enough
	changes   int64         // the number of the last known change of a record; negative if none is known
	ids       usedIDs       // of charges
}

// init prepares a committer whose goroutine ends after stop and swept are closed.
func (cm *committer) init(opts *Options, clock *clock.Clock, table *cells, stop, swept <-chan struct{}) {
	cm.opts, cm.clock, cm.table = opts, clock, table
	cm.conn = connection{
		opts: opts, name: opts.Name, clock: clock, id: rand.Int64(),
		onSet: cm.eraser.timeSet, onReset: func() error { return cm.eraser.takeResets(nil) },
	}
	cm.conn.onNetwork.Store(opts.Remote)
	cm.leases = leases{opts: opts, clock: clock, conn: &cm.conn, queue: &cm.queue, degraded: &cm.degraded,
		others: make(chan struct{}, 1)}
	cm.writer = writer{opts: opts, clock: clock, conn: &cm.conn, table: table, offenses: &cm.offenses,
		leases: &cm.leases}
	cm.eraser = eraser{clock: clock, conn: &cm.conn, table: table, queue: &cm.queue, offenses: &cm.offenses,
		writer: &cm.writer, degrade: cm.degrade}
	cm.changes = -1
	cm.poller = newPoller(cm, stop)
	cm.poller.notes = newNotes(opts.Notes)
	cm.queue = queue{woken: make(chan struct{}, 1), full: make(chan struct{}, 1)}
	cm.ready, cm.started, cm.done = make(chan struct{}), make(chan struct{}), make(chan struct{})
	cm.stop, cm.swept = stop, swept
	cm.looking = time.NewTicker(cmp.Or(opts.resetInterval, resetInterval))
	cm.gathering, cm.probe = time.NewTimer(time.Hour), time.NewTimer(time.Hour)
	cm.gathering.Stop()
	cm.probe.Stop()
	cm.reminder = time.AfterFunc(time.Hour, cm.remind)
	cm.reminder.Stop()
	cm.starting = time.AfterFunc(startTimeout, func() { close(cm.started) })
}

// loop runs until stop is closed. It ends after all that wait are answered and every lease is given
// back.
func (cm *committer) loop() {
	defer close(cm.done)
	cm.open()
	defer cm.looking.Stop()
	for {
		select {
		case <-cm.looking.C:
			cm.look()
		case a := <-cm.poller.heard:
			cm.hear(a)
		case <-cm.queue.woken:
			if cm.conn.roundTrip() > 0 {
				runtime.Gosched() // see gather
			}
			if cm.turn() {
				cm.queue.wakeUp() // there may be more
			}
		case <-cm.probe.C:
			cm.recover()
		case <-cm.stop:
			cm.finish()
			return
		}
	}
}

// resetInterval is how often the store is asked for resets by other processes. newsInterval is how
// often a store with round trips is asked for all changes by others. They must be known within a
// second.
const (
	resetInterval = 500 * time.Millisecond
	newsInterval  = 750 * time.Millisecond
)

// drain takes turns until the queue is empty.
func (cm *committer) drain() {
	for cm.turn() {
	}
}

// turn executes one task, or commits some offenses and the open batch. It reports whether there
// may be more to do. Claims wait for some offenses at most, and for none on a store with round
// trips.
func (cm *committer) turn() bool {
	if t := cm.queue.takeTask(); t != nil {
		t.answer(t.do())
		return true
	}
	b := cm.takeFirst()
	if b != nil {
		cm.commit(b)
	}
	more := false
	if !cm.degraded.Load() {
		var err error
		if more, err = cm.writer.punishSome(); err != nil {
			cm.degrade(err)
		}
	}
	cm.askTimeAgain()
	if b == nil {
		if b = cm.queue.takeDue(); b == nil {
			return more
		}
		cm.commit(b)
	}
	cm.gather(b.size())
	return true
}

// takeFirst returns the open batch if it is to be committed first, or nil.
func (cm *committer) takeFirst() *batch {
	if cm.conn.roundTrip() == 0 {
		return nil
	}
	return cm.queue.takeDue()
}

// A batch may fill up for gatherFor, but for no more than a gatherShare of the
// time that decisions wait for the store.
const (
	gatherFor   = time.Millisecond
	gatherShare = 10
)

// gather lets the open batch fill up after one of size n: a commit costs several times as much as
// one more claim in it. It waits until as many entries have come as before, which in the end are
// all concurrent clients. For a single client it doesn't wait. Nor does it in a period, in which most
// batches are no transactions, or for a store on a network:
// there a batch fills up during the call for the one before, and the server would be idle. Only the
// requests that are ready to run may join first: otherwise the first one to wake the committer would
// have a call for itself.
func (cm *committer) gather(n int) {
	if cm.conn.roundTrip() > 0 || cm.conn.period() != 0 || !cm.queue.await(n) {
		return
	}
	cm.gathering.Reset(min(gatherFor, cm.opts.now().StoreTimeout/gatherShare))
	select {
	case <-cm.queue.full:
		cm.gathering.Stop()
	case <-cm.gathering.C:
	}
}

// commit sends a batch to the store, and delivers the grants.
func (cm *committer) commit(b *batch) {
	start := time.Now()
	if b.err = cm.writer.put(b); b.err == nil {
		cm.opts.Observer.Committed(len(b.entries), time.Since(start))
	} else {
		cm.degrade(b.err)
	}
	close(b.done)
}
