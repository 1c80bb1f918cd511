package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Engine decides about requests. It may be used from any number of goroutines.
type Engine struct {
	opts  Options
	clock *clock
	table *table
	queue queue

	offenses offenses                                 // that the committer is to tell the store of
	clients  atomic.Pointer[[reputation.Levels]int64] // how many there were of each level

	store   atomic.Pointer[opened] // nil while there is none; written by the committer
	charged storage.Store          // what memory knows is charged there; the committer's own
	claimed atomic.Int64           // claims that the store answered
	answers atomic.Int64           // transactions of the committer that the store answered

	stamp   stamp       // the committer's own
	asking  atomic.Bool // the committer is to ask for the time
	keeping keeping     // the time of a store that keeps none

	claims []storage.Claim // buffers of the committer
	grants []limiter.Grant

	id       int64 // of this engine among those that use the store, by chance
	presence atomic.Pointer[storage.Presence]

	degraded  atomic.Bool // the store can't be used, and the queue is closed
	outage    outage
	gathering *time.Timer // fires when a batch has filled up for long enough

	probe    *time.Timer // fires when the store is worth another try
	reminder *time.Timer // tells that an outage goes on
	starting *time.Timer // closes started

	waiting waiting

	closeOnce sync.Once
	stop      chan struct{} // closed to stop the goroutines
	swept     chan struct{} // closed when the janitor has ended
	committed chan struct{} // closed when the committer has ended
	ready     chan struct{} // closed when the store was opened or failed to
	started   chan struct{} // closed when there was enough time to open it
	closeErr  error         // written before committed is closed
}

// opened is a store that is open.
type opened struct{ storage.Store }

var (
	errNoStore = errors.New("the store could not be opened")
	errTimeout = errors.New("the store did not answer in time")
	errNotSent = errors.New("the store can't be used at the moment")
)

// New starts an engine, which opens its store in the background. Decisions can
// be asked for at once.
func New(opts Options) (*Engine, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{
		opts:      opts,
		id:        rand.Int64(),
		clock:     newClock(opts.Clock),
		queue:     queue{wake: make(chan struct{}, 1), full: make(chan struct{}, 1)},
		gathering: time.NewTimer(time.Hour),
		probe:     time.NewTimer(time.Hour),
		stop:      make(chan struct{}),
		swept:     make(chan struct{}),
		committed: make(chan struct{}),
		ready:     make(chan struct{}),
		started:   make(chan struct{}),
	}
	e.table = newTable(opts.MaxKeys, e.giveBackLocked)
	e.gathering.Stop()
	e.probe.Stop()
	e.reminder = time.AfterFunc(time.Hour, e.remind)
	e.reminder.Stop()
	e.starting = time.AfterFunc(startTimeout, func() { close(e.started) })
	go e.commitLoop()
	go e.janitorLoop()
	return e, nil
}

// startTimeout is how long after the start of an engine decisions wait for its
// store to be opened, rather than be made without it. A database is opened, or
// found to be unusable, in milliseconds; a busy machine may take longer.
const startTimeout = 2 * time.Second

// Ready returns a channel that is closed when the store has been opened, or has
// failed to open for the first time.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Close answers what waits, gives back what is not spent, and closes the store.
// Decisions asked for afterwards are made from memory alone, with the limits of
// a store that can't be used. If ctx ends first, Close returns its error and
// the rest happens in the background.
func (e *Engine) Close(ctx context.Context) error {
	e.closeOnce.Do(func() { close(e.stop) })
	select {
	case <-e.committed:
		return e.closeErr
	case <-ctx.Done():
		return fmt.Errorf("engine: close: %w", ctx.Err())
	}
}

func (e *Engine) isStopped() bool {
	select {
	case <-e.stop:
		return true
	default:
		return false
	}
}

// flushBatch is how many leases are given back in one transaction on close, and
// how many debts are settled in one after a fault.
const flushBatch = 512

// finish answers what waits, gives every lease back, and closes the store.
func (e *Engine) finish() {
	<-e.swept
	e.starting.Stop()
	e.degraded.Store(true) // nothing new is claimed
	e.answerAll()
	e.probe.Stop()
	e.reminder.Stop()
	if e.store.Load() == nil && e.reopen() != nil {
		return // as has been told
	}
	e.closeErr = e.giveBackAll()
	if store := e.store.Swap(nil); store != nil {
		e.closeErr = errors.Join(e.closeErr, e.leave(store.Store), store.Close())
	}
}

// giveBackAll charges what is owed, and gives back what is held. A database that
// was replaced shows only here, perhaps, so what fails is tried once more.
func (e *Engine) giveBackAll() error {
	err := e.giveBackOnce()
	if err != nil && e.reopen() == nil {
		err = e.giveBackOnce()
	}
	return err
}

func (e *Engine) giveBackOnce() error {
	if err := e.catchUp(); err != nil { // debts first: there may not be time for all
		return err
	}
	if err := e.punish(); err != nil {
		return err
	}
	return e.settle((*batch).returnLocked)
}

// answerAll commits until nobody waits any more and everyone has spent what was
// granted last.
func (e *Engine) answerAll() {
	over := e.waiting.end()
	for more := true; more; e.drain() {
		select {
		case <-e.queue.wake:
		case <-over:
			more = false
		}
	}
	e.queue.setClosed(true)
	e.drain()
}

// waiting counts the decisions that may wait for a batch.
type waiting struct {
	mu    sync.Mutex
	ended bool // guarded by mu: none begins to wait any more
	count sync.WaitGroup
}

// begin counts one more, which must be followed by leave, if any may still begin.
func (w *waiting) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.count.Add(1)
	}
	return !w.ended
}

func (w *waiting) leave() { w.count.Done() }

// end lets none begin any more, and returns a channel that is closed when all have
// left.
func (w *waiting) end() (over <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	left := make(chan struct{})
	go func() {
		w.count.Wait()
		close(left)
	}()
	return left
}

// settle puts to the store what add makes of every key, which add finds locked.
func (e *Engine) settle(add func(*batch, *cell)) error {
	b := &batch{done: make(chan struct{})}
	var err error
	e.table.each(func(c *cell) {
		if err != nil {
			return
		}
		c.mu.Lock()
		add(b, c)
		c.mu.Unlock()
		if len(b.entries) >= flushBatch {
			err = e.settleBatch(b)
		}
	})
	if err != nil {
		return err
	}
	return e.settleBatch(b)
}

// returnLocked adds what a key owes, and all that it holds, to a batch.
func (b *batch) returnLocked(c *cell) {
	b.chargeLocked(c)
	if c.lease.Holds() {
		b.entries = append(b.entries, &entry{cell: c, limit: c.limit, batch: b, give: c.takeLeaseLocked()})
	}
}

func (e *Engine) settleBatch(b *batch) error {
	if len(b.entries) == 0 {
		return nil
	}
	if b.err = e.claim(b); b.err != nil {
		e.undo(b)
		return b.err
	}
	for _, en := range b.entries {
		e.deliver(en, b.now)
	}
	b.entries = b.entries[:0]
	return nil
}

// Stats describes an engine at one moment.
type Stats struct {
	// Keys is how many keys are held in memory, counted once per limit.
	Keys int64
	// Claims is how many claims the store has answered.
	Claims int64
	// Evicted is how many keys were dropped from memory to make room.
	Evicted int64
	// Clients is how many clients of each level are held in memory, as counted in
	// the last round of cleaning.
	Clients [reputation.Levels]int64
	// Degraded tells that the store can't be used.
	Degraded bool
	// Since is when the store failed, and Cause what went wrong last; both are
	// zero while it can be used.
	Since time.Time
	Cause error
	// Store describes the store; what can't be told is zero.
	Store storage.Stats
}

// Stats measures the engine and its store.
func (e *Engine) Stats(ctx context.Context) Stats {
	s := Stats{
		Keys:     e.table.count.Load(),
		Claims:   e.claimed.Load(),
		Evicted:  e.table.evicted.Load(),
		Degraded: e.degraded.Load(),
	}
	if counted := e.clients.Load(); counted != nil {
		s.Clients = *counted
	}
	if s.Degraded {
		s.Since, s.Cause = e.outage.last()
	}
	if store := e.store.Load(); store != nil {
		s.Store, _ = store.Stats(ctx)
	}
	return s
}
