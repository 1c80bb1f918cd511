package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// batch is the claims that go to the store in one transaction.
type batch struct {
	number  uint64        // counted from 1 by the queue; nothing holds on to a batch by it
	entries []*entry      // those that only give back come first, see giveLocked
	gives   int           // how many do
	clients []*cell       // whose standing is to be read first
	done    chan struct{} // closed when the fields below are final
	now     int64         // the time of the store as of which it was decided
	era     int64         // of that time
	taken   int64         // what had elapsed then
	err     error         // the store's; nobody has been granted anything
}

// size is how much a batch has to do.
func (b *batch) size() int { return max(len(b.entries), len(b.clients)) }

// entry is one claim of a batch. It is guarded by the queue's lock while its
// batch is open, then it belongs to the committer, and after the batch is done
// it doesn't change any more.
type entry struct {
	cell    *cell
	limit   *Limit
	client  *cell    // whose standing scales the limit; nil if none does
	parent  *cell    // whose standing does so as well, or nil
	scaling *Scaling // by what
	batch   *batch
	cost    int64 // of every request that waits for this claim
	wanted  int64 // by all of them together
	extra   int64
	ahead   int64
	give    limiter.Lease
	given   int64 // units of the cell that the batch gives back, noted with its last entry
	charge  limiter.Charge
	grant   limiter.Grant
	held    int64       // units of the key that this process held when the claim was refused
	fresh   atomic.Bool // the refusal is news, and nobody has told it yet
}

// refused reports whether the claim is refused for good. It is not if what this
// process held of the key may suffice. If that can't, who has not tried twice makes
// the claim again all the same: without what is held, it is told a time to wait that
// is exact.
func (e *entry) refused(twice bool) bool {
	if e.cost == 0 || e.grant.Units > 0 {
		return false
	}
	return e.held == 0 || twice && e.limit.Left(e.grant.Lease)+e.held < e.cost
}

// queue holds the open batch: the one that the committer takes next.
type queue struct {
	mu     sync.Mutex
	batch  *batch        // guarded by mu; nil if nothing waits
	number uint64        // guarded by mu: of the last batch
	closed bool          // guarded by mu: nothing is taken in
	enough int           // guarded by mu: the size that the committer waits for
	wake   chan struct{} // holds one token when there is something to take
	full   chan struct{} // holds one token when there is enough
}

// join adds to the open batch, and returns that batch, or nil if the queue is
// closed.
func (q *queue) join(fill func(*batch)) *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	if q.batch == nil {
		q.number++
		q.batch = &batch{number: q.number, done: make(chan struct{})}
		q.wakeUp()
	}
	fill(q.batch)
	if q.batch.size() >= q.enough {
		put(q.full)
	}
	return q.batch
}

// wakeUp wakes the committer.
func (q *queue) wakeUp() { put(q.wake) }

// put puts a token into a channel that has room for one.
func put(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take returns the open batch, or nil, and makes way for another.
func (q *queue) take() *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.batch
	q.batch, q.enough = nil, math.MaxInt
	select {
	case <-q.full:
	default:
	}
	return b
}

// await sets what size is enough after a batch of size n, and tells whether the
// open batch is smaller. If others have come during the commit, there are more
// clients than batches have held yet.
func (q *queue) await(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := 0
	if q.batch != nil {
		waiting = q.batch.size()
		n *= 2
	}
	q.enough = n
	return n > 1 && waiting < n
}

// setClosed says whether the queue takes anything in.
func (q *queue) setClosed(closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = closed
}

// claimLocked adds what a debit misses to the open batch. The cell must be
// locked, which it stays.
func (b *batch) claimLocked(c *cell, d *Debit, now int64) *entry {
	client := d.client()
	if e := c.open; e != nil && e.batch == b && e.cost == d.Cost && e.limit == d.Limit && e.client == client {
		e.wanted += d.Cost
		return e
	}
	b.chargeLocked(c)
	ahead := c.adaptLocked(d.Limit, now)
	e := &entry{
		cell: c, limit: d.Limit, batch: b,
		cost: d.Cost, wanted: d.Cost,
		extra: int64(c.headroom), ahead: ahead,
		client: client, parent: d.parent(), scaling: d.Scaling,
	}
	b.giveWithLocked(e, now)
	c.limit = d.Limit
	c.open = e
	c.inFlight++
	b.entries = append(b.entries, e)
	return e
}

// giveWithLocked gives back what the cell of a new claim holds: with the claim if
// it is the cell's first in the batch, and otherwise before all claims.
func (b *batch) giveWithLocked(e *entry, now int64) {
	c := e.cell
	if settles := c.settlesLocked(now); settles > 0 {
		if c.openIn(b) == nil {
			e.give, e.given = c.takeLeaseLocked(), settles
			return
		}
		b.giveLocked(c, c.limit, c.takeLeaseLocked(), settles)
	}
	if last := c.openIn(b); last != nil {
		e.given = last.given
	}
}

// giveLocked adds a lease that is given back to the batch, before all claims, so
// that none of them is refused for the want of it. The cell must be locked.
func (b *batch) giveLocked(c *cell, limit *Limit, lease limiter.Lease, settles int64) {
	e := &entry{cell: c, limit: limit, batch: b, give: lease}
	b.entries = slices.Insert(b.entries, b.gives, e)
	b.gives++
	if c.openIn(b) == nil {
		c.open = e
	}
	c.open.given += settles
}

// openIn returns the last entry that the cell has in a batch, or nil.
func (c *cell) openIn(b *batch) *entry {
	if c.open != nil && c.open.batch == b {
		return c.open
	}
	return nil
}

// giveBackLocked gives back what a cell holds. It returns the batch that does, or
// nil if there is nothing to give back, or the queue is closed and the cell keeps
// it. From when the lease leaves the cell it is in the queue: nobody who locks the
// cell finds the units in neither.
func (e *Engine) giveBackLocked(c *cell) *batch {
	settles := c.settlesLocked(e.clock.now())
	if settles <= 0 {
		return nil
	}
	return e.queue.join(func(b *batch) { b.giveLocked(c, c.limit, c.takeLeaseLocked(), settles) })
}

// commitLoop is the committer: the one goroutine that talks to the store about
// claims. It ends when stop is closed, after everything that waits is answered
// and every lease is given back.
func (e *Engine) commitLoop() {
	defer close(e.committed)
	e.openStore()
	for {
		select {
		case <-e.queue.wake:
			if e.turn() {
				e.queue.wakeUp() // there may be more
			}
		case <-e.probe.C:
			e.recover()
		case <-e.stop:
			e.finish()
			return
		}
	}
}

// drain takes turns until nothing waits.
func (e *Engine) drain() {
	for e.turn() {
	}
}

// turn commits some offenses and the open batch, and tells whether there may be
// more to do. Claims don't wait for all offenses.
func (e *Engine) turn() bool {
	more := false
	if !e.degraded.Load() {
		var err error
		if more, err = e.punishSome(); err != nil {
			e.degrade(err)
		}
	}
	e.askTimeAgain()
	b := e.queue.take()
	if b == nil {
		return more
	}
	e.commit(b)
	e.gather(b.size())
	return true
}

// A batch may fill up for gatherFor, but for no more than a gatherShare of the
// time that decisions wait for the store.
const (
	gatherFor   = time.Millisecond
	gatherShare = 10
)

// gather lets the open batch fill up after one of size n: a commit costs several
// times as much as one more claim in it does. It waits until as many have come as
// before, in the end all clients that come at a time; for one that comes alone,
// not at all.
func (e *Engine) gather(n int) {
	if !e.queue.await(n) {
		return
	}
	e.gathering.Reset(min(gatherFor, e.opts.StoreTimeout/gatherShare))
	select {
	case <-e.queue.full:
		e.gathering.Stop()
	case <-e.gathering.C:
	}
}

// commit puts a batch to the store, and hands out what is granted.
func (e *Engine) commit(b *batch) {
	start := time.Now()
	b.err = e.claim(b)
	if b.err == nil {
		for _, entry := range b.entries {
			e.deliver(entry, b.now)
		}
		e.opts.Observer.Committed(len(b.entries), time.Since(start))
	} else {
		e.undo(b)
		e.degrade(b.err)
	}
	close(b.done)
}

// claim asks the store for what the entries of a batch want, and sets the time of
// the batch.
func (e *Engine) claim(b *batch) error {
	store := e.store.Load()
	if store == nil {
		return errNoStore
	}
	b.era = e.clock.line.Load().Era
	t, err := e.inTerms(store, func(in storage.Store, term *storage.Term) error {
		if b.now = term.Time.Now; b.era != term.Era {
			b.era = term.Era
			b.beginEra(b.now)
		}
		return e.claimIn(b, in, term)
	})
	b.now, b.taken = t.Now, e.stamp.elapsed
	if err != nil {
		b.now, b.taken = e.clock.now(), e.opts.Clock.Elapsed()
	}
	return err
}

// claimIn is a claim within a term, of which nothing is known if it fails.
func (e *Engine) claimIn(b *batch, store storage.Store, term *storage.Term) error {
	if err := e.readClients(b, store, term); err != nil {
		return err
	}
	claims := e.claims[:0]
	for _, entry := range b.entries {
		claim, err := e.claimOf(entry, term, b.now)
		if err != nil {
			return err
		}
		claims = append(claims, claim)
	}
	e.claims = claims
	if cap(e.grants) < len(claims) {
		e.grants = make([]limiter.Grant, len(claims), 2*len(claims))
	}
	grants := e.grants[:len(claims)]
	if err := store.Claim(context.Background(), claims, grants); err != nil {
		return err
	}
	e.answers.Add(1)
	e.claimed.Add(int64(len(claims)))
	for i, entry := range b.entries {
		entry.grant = grants[i]
	}
	return nil
}

// claimOf returns an entry as the store takes it.
func (e *Engine) claimOf(en *entry, term *storage.Term, now int64) (storage.Claim, error) {
	c := en.cell
	name, err := e.nameOf(c, en.limit.Retention(), term, now)
	return storage.Claim{
		ID: c.id, Key: name.Key, Former: name.Former, Limit: en.limit.Limit,
		Claim: limiter.Claim{
			Now: now, Min: en.cost, Want: en.wanted, Extra: en.extra, Ahead: en.ahead,
			Return: en.give, Charge: en.charge,
		},
	}, err
}

// deliver brings what the store has answered to the cell.
func (e *Engine) deliver(en *entry, now int64) {
	c := en.cell
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answeredLocked(en)
	c.liftLocked(en.grant.InUse(), now)
	en.limit.Rewind(&c.lease, now)
	if en.cost == 0 {
		c.learnLocked(en, now) // it only gave back, or charged
		return
	}
	if en.client != nil {
		c.limit = en.limit // which may have been another when it was claimed
	}
	if c.local != nil && len(c.local.debts) == 0 {
		c.local = nil // settled with this claim or before
	}
	if en.grant.Units == 0 {
		c.refusedLocked(en, now)
		return
	}
	granted := en.grant.Lease // the entry's stays what it is: whoever waits for it was not refused
	if c.local != nil {
		back := c.settleDebtsLocked(en.limit, &granted, e.clock.now()) // what was granted may have drained since
		e.giveLeaseLocked(c, en.limit, back, now)
	}
	e.giveLeaseLocked(c, en.limit, en.limit.Join(&c.lease, granted), now)
}

// giveLeaseLocked gives back a lease that a locked cell can't hold.
func (e *Engine) giveLeaseLocked(c *cell, limit *Limit, lease limiter.Lease, now int64) {
	if settles := limit.Settles(lease, now); settles > 0 {
		e.queue.join(func(b *batch) { b.giveLocked(c, limit, lease, settles) })
	}
}

// learnLocked notes what the store tells of the key, unless the key holds something:
// what is known with that is kept.
func (c *cell) learnLocked(en *entry, now int64) {
	if en.limit.Settles(c.lease, now) == 0 {
		en.limit.Join(&c.lease, en.grant.Lease)
	}
}

// answeredLocked notes that an entry does not wait any more.
func (c *cell) answeredLocked(en *entry) {
	if en.cost > 0 {
		c.inFlight--
	}
	if c.open == en {
		c.open = nil
	}
}

// refusedLocked remembers a refusal, unless this process holds something of the
// key, or is about to give it back: then there may be enough, or will be sooner
// than the store says. All that its own batch gives back, the claim was after.
func (c *cell) refusedLocked(en *entry, now int64) {
	en.held = en.limit.Settles(c.lease, now)
	if c.open != nil && c.open.batch != en.batch {
		en.held += c.open.given
	}
	if en.held > 0 {
		return
	}
	en.limit.Join(&c.lease, en.grant.Lease)
	en.fresh.Store(c.blocked(en.limit, en.cost, now, false) == nil)
	c.blockLocked(block{
		until:    now + int64(en.grant.Retry),
		cost:     en.cost,
		left:     en.limit.Left(en.grant.Lease),
		amount:   en.limit.Amount(),
		capacity: en.limit.Capacity(),
	}, now)
}

// undo takes back what a batch that was not applied would have given back. If
// it may have been applied, those units are given up: they stay charged, or
// are free already.
func (e *Engine) undo(b *batch) {
	unknown, now := errors.Is(b.err, storage.ErrUnknownOutcome), e.clock.now()
	for _, en := range b.entries {
		c := en.cell
		c.mu.Lock()
		c.answeredLocked(en)
		if !unknown && !c.dead && en.give.Holds() {
			en.limit.Join(&c.lease, en.give)
		}
		if en.charge.Units > 0 && !en.charge.Floor {
			c.addDebtLocked(en.limit, en.charge, now)
		}
		c.mu.Unlock()
	}
}
