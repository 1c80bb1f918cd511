package engine

import (
	"cmp"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

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
	clock *clock
	table *table
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

	newsroom newsroom // asks the store for changes by other processes

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
}

// init prepares a committer whose goroutine ends after stop and swept are closed.
func (m *committer) init(opts *Options, clock *clock, table *table, stop, swept <-chan struct{}) {
	m.opts, m.clock, m.table = opts, clock, table
	m.conn = connection{
		opts: opts, name: opts.Name, clock: clock, id: rand.Int64(),
		onSet: m.eraser.timeSet, onReset: func() error { return m.eraser.takeResets(nil) },
	}
	m.conn.onNetwork.Store(opts.Remote)
	m.leases = leases{opts: opts, clock: clock, conn: &m.conn, queue: &m.queue, degraded: &m.degraded, others: make(chan struct{}, 1)}
	m.writer = writer{opts: opts, clock: clock, conn: &m.conn, table: table, offenses: &m.offenses, leases: &m.leases}
	m.eraser = eraser{clock: clock, conn: &m.conn, table: table, queue: &m.queue, offenses: &m.offenses, writer: &m.writer, degrade: m.degrade}
	m.changes = -1
	m.newsroom = newNewsroom(m, stop)
	m.newsroom.notes = newNotes(opts.Notes)
	m.queue = queue{woken: make(chan struct{}, 1), full: make(chan struct{}, 1)}
	m.ready, m.started, m.done = make(chan struct{}), make(chan struct{}), make(chan struct{})
	m.stop, m.swept = stop, swept
	m.looking = time.NewTicker(cmp.Or(opts.resetInterval, resetInterval))
	m.gathering, m.probe = time.NewTimer(time.Hour), time.NewTimer(time.Hour)
	m.gathering.Stop()
	m.probe.Stop()
	m.reminder = time.AfterFunc(time.Hour, m.remind)
	m.reminder.Stop()
	m.starting = time.AfterFunc(startTimeout, func() { close(m.started) })
}

// loop runs until stop is closed. It ends after all that wait are answered and every lease is given
// back.
func (m *committer) loop() {
	defer close(m.done)
	m.open()
	defer m.looking.Stop()
	for {
		select {
		case <-m.looking.C:
			m.look()
		case a := <-m.newsroom.heard:
			m.hear(a)
		case <-m.queue.woken:
			if m.conn.roundTrip() > 0 {
				runtime.Gosched() // see gather
			}
			if m.turn() {
				m.queue.wakeUp() // there may be more
			}
		case <-m.probe.C:
			m.recover()
		case <-m.stop:
			m.finish()
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
func (m *committer) drain() {
	for m.turn() {
	}
}

// turn executes one order, or commits some offenses and the open batch. It reports whether there
// may be more to do. Claims wait for some offenses at most, and for none on a store with round
// trips.
func (m *committer) turn() bool {
	if o := m.queue.takeOrder(); o != nil {
		o.answer(o.do())
		return true
	}
	b := m.takeFirst()
	if b != nil {
		m.commit(b)
	}
	more := false
	if !m.degraded.Load() {
		var err error
		if more, err = m.writer.punishSome(); err != nil {
			m.degrade(err)
		}
	}
	m.askTimeAgain()
	if b == nil {
		if b = m.queue.takeDue(); b == nil {
			return more
		}
		m.commit(b)
	}
	m.gather(b.size())
	return true
}

// takeFirst returns the open batch if it is to be committed first, or nil.
func (m *committer) takeFirst() *batch {
	if m.conn.roundTrip() == 0 {
		return nil
	}
	return m.queue.takeDue()
}

// A batch may fill up for gatherFor, but for no more than a gatherShare of the
// time that decisions wait for the store.
const (
	gatherFor   = time.Millisecond
	gatherShare = 10
)

// gather lets the open batch fill up after one of size n: a commit costs several times as much as
// one more claim in it. It waits until as many entries have come as before, which in the end are
// all concurrent clients. For a single client it doesn't wait. Nor does it for a store on a network:
// there a batch fills up during the call for the one before, and the server would be idle. Only the
// requests that are ready to run may join first: otherwise the first one to wake the committer would
// have a call for itself.
func (m *committer) gather(n int) {
	if m.conn.roundTrip() > 0 || !m.queue.await(n) {
		return
	}
	m.gathering.Reset(min(gatherFor, m.opts.now().StoreTimeout/gatherShare))
	select {
	case <-m.queue.full:
		m.gathering.Stop()
	case <-m.gathering.C:
	}
}

// commit sends a batch to the store, and delivers the grants.
func (m *committer) commit(b *batch) {
	start := time.Now()
	if b.err = m.writer.put(b); b.err == nil {
		m.opts.Observer.Committed(len(b.entries), time.Since(start))
	} else {
		m.degrade(b.err)
	}
	close(b.done)
}
