package engine // leases

import (
	"errors"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/internal/engine/clock"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// leases moves units between the cells and the queue: granted units, and units that cells can't or
// shouldn't keep.
//
// Invariants: units that leave a cell are in the store or in the queue before its lock is released.
// A lease that can't be given back at the moment is postponed, and its cell stays until then.
type leases struct {
	opts     *Options
	clock    *clock.Clock
	conn     *connection
	queue    *queue
	degraded *atomic.Bool
	others   chan struct{} // for the janitor: holds a token when other processes begin to use the store

	// These are for the goroutine of the committer only.

	// lent are the leases of keys with few units left, as of the last check, zero before that: other
	// processes may be refused for lack of the units of this process.
	lent   map[cell]lease
	shared bool // other processes used the store at the last check
}

// deliver moves the answer of the store to the cell.
func (l *leases) deliver(en *entry, now int64) {
	c := en.lock()
	defer c.Unlock()
	newest := c.rare().open == en
	if !newest {
		en.period = 0 // the cell has a newer entry, answered or not: claims at once may have come in between
	}
	en.answeredLocked()
	defer l.shareAnsweredLocked(c, en.limit)
	c.liftBlocksLocked(en.grant.InUse(), now)
	c.rewindLocked(en.limit, now)
	if en.refunds {
		en.refundedLocked()
	}
	if en.cost == 0 {
		en.learnedLocked(newest && en.learnLocked(now)) // it only gave back, or charged
		return
	}
	if en.client.exists() {
		c.setLimitLocked(en.limit) // it may have been another when it was claimed
	}
	if c.rare().local != nil && !c.rare().local.hasDebts() {
		c.setLocalLocked(nil) // settled with this claim or before
	}
	if en.grant.Units == 0 && en.renews {
		en.notRenewedLocked()
		en.learnedLocked(false)
		return
	}
	if en.grant.Units == 0 {
		en.learnedLocked(en.refusedLocked(now, l.asksAgain(en)))
		return
	}
	granted := en.grant.Lease // the entry's own stays as it is: its waiting requests were not refused
	if c.rare().local != nil {
		back := c.rare().local.settle(en.limit, &granted, l.clock.Now()) // some of the grant may have drained since
		l.giveLeaseLocked(c, en.limit, back, now)
	}
	was := c.lease.at
	l.giveLeaseLocked(c, en.limit, c.joinLocked(en.limit, granted), now)
	if (c.lease.at != was || granted.Span > 0) && en.limit.CountsSlots() {
		c.beginLocked(en.limit, now)
	}
	en.spendAfterwardsLocked(now)
	en.learnedLocked(true)
	l.lendLocked(c, en.limit)
}

// lock locks the cell of an entry and returns it. An entry without a claim may find it moved.
func (e *entry) lock() cell {
	e.cell = e.cell.lockPresent()
	return e.cell
}

// giveLeaseLocked gives back a lease that a locked cell can't keep. On a network it waits until
// there is more to send, which makes it worth a round trip. While the store can't be used, the
// lease is postponed.
func (l *leases) giveLeaseLocked(c cell, limit *Limit, lease limiter.Lease, now int64) {
	settles := lease.Settles(&limit.Rate, now)
	if settles <= 0 {
		return
	}
	var joined bool
	give := func(b *batch) { b.giveLocked(c, limit, lease, settles, usage{}) }
	if l.conn.roundTrip() > 0 {
		joined = l.queue.joinQuietly(give)
	} else {
		joined = l.queue.join(give) != nil
	}
	if !joined {
		l.queue.postponeLocked(c, limit, lease)
	}
}

// learnLocked notes the store's state of the key, and reports whether it did. A key with unspent
// units keeps the state it has.
func (e *entry) learnLocked(now int64) bool {
	c := e.cell
	if c.leaseLocked().Settles(&e.limit.Rate, now) > 0 {
		return false
	}
	c.joinLocked(e.limit, e.grant.Lease)
	return true
}

// learnedLocked updates the cell's knowledge after an answer. became reports that the answer became
// the cell's lease: within a period it then counts all units in use. If it didn't, and units were given
// back, the lease still counts these: a token bucket would be charged with them again.
func (e *entry) learnedLocked(became bool) {
	c := e.cell
	switch {
	case became && e.period != 0 && (c.lease.at == e.grant.At || !e.limit.CountsSlots()):
		c.known = knowledgeOf(e.period, e.name)
	case became || e.charge.Units > 0 || e.give.Holds():
		c.known.period = 0
	}
}

// refundedLocked lowers the known usage of a key to that in the store, from which units were refunded. Units that
// the key holds by now are among those in use in the store.
func (e *entry) refundedLocked() {
	switch c := e.cell; {
	case c.lease.at == e.grant.At && c.slotsLocked().span == 0:
		c.lease.used = min(c.lease.used, e.grant.Used)
	case c.lease.units == 0:
		c.setLeaseLocked(e.grant.Lease)
	}
}

// answeredLocked notes that an entry waits no more.
func (e *entry) answeredLocked() {
	c := e.cell
	if e.cost == 0 && c.rare().open != e {
		return
	}
	c.changeRareLocked(func(r *busy) {
		if e.cost > 0 {
			r.inFlight--
		}
		if r.open == e {
			r.open = nil
		}
	})
}

// refusedLocked remembers a refusal and reports true, unless this process has or is about to give
// back units of the key: then there may be enough, or will be sooner than the store says. Units
// given back by the entry's own batch don't matter, because its claim came after them. The store is
// asked again after asks at the latest.
func (e *entry) refusedLocked(now, asks int64) bool {
	c := e.cell
	e.held = c.leaseLocked().Settles(&e.limit.Rate, now)
	if open := c.rare().open; open != nil && open.batch != e.batch {
		e.held += open.given
	}
	if e.held > 0 {
		return false
	}
	c.joinLocked(e.limit, e.grant.Lease)
	if e.unawaited {
		return true // the first refused request is to report it
	}
	e.fresh.Store(!c.blocks().wasRefused(e.limit, e.cost, now))
	c.addBlockLocked(block{
		until:    now + int64(e.grant.Retry),
		asks:     now + min(int64(e.grant.Retry), asks),
		cost:     e.cost,
		left:     e.grant.Lease.Left(&e.limit.Rate),
		amount:   e.limit.Amount(),
		capacity: e.limit.Capacity(),
		held:     e.counting == Held,
	}, now)
	return true
}

// keepLocked keeps the lease that an entry should have given back. If the cell has another lease,
// which knows more, or memory decides about the key and has admitted units without this lease, it is
// postponed.
func (l *leases) keepLocked(en *entry) {
	if c := en.cell; c.rare().local == nil && (c.lease.at == en.give.At || !en.limit.CountsSlots()) {
		if back := c.joinLocked(en.limit, en.give); back.Holds() {
			l.queue.postponeLocked(c, en.limit, back)
		}
	} else {
		l.queue.postponeLocked(c, en.limit, en.give)
	}
}

// undo returns the leases of entries that were not applied to their cells. If err says that they
// may have been applied, their units are given up: they stay charged, or are free already.
func (l *leases) undo(entries []*entry, err error) {
	unknown, now := errors.Is(err, storage.ErrUnknownOutcome), l.clock.Now()
	for _, en := range entries {
		c := en.lock()
		en.answeredLocked()
		if !unknown && !c.Dead() && en.give.Holds() {
			l.keepLocked(en)
		}
		switch {
		case en.charge.Units == 0 || en.charge.Floor:
		case en.news:
			c.oweLocked(en.limit, en.charge, now)
		default:
			c.addDebtLocked(en.limit, en.charge, now)
		}
		if !unknown {
			en.oweAfterwardsLocked(now)
		}
		c.Unlock()
	}
}

// giveBackLocked gives back a cell's lease: at once, or by a batch, which it returns. It returns
// nil as well if there is nothing to give back, or if the queue is closed, in which case the cell
// keeps its lease. Units that leave the cell are in the store or in the queue: a caller that locks
// the cell finds them there or in the cell.
func (l *leases) giveBackLocked(c cell) *batch {
	if c.settlesLocked(l.clock.Now()) <= 0 {
		return nil
	}
	if at, ok := l.atOnce(); ok && at.giveBackLocked(c) {
		return nil
	}
	settles := c.settlesLocked(l.clock.Now())
	if settles <= 0 {
		return nil // it is unknown whether the store has the units
	}
	return l.queue.join(func(b *batch) {
		known := c.usageLocked()
		b.giveLocked(c, c.limit(), c.takeLeaseLocked(), settles, known)
	})
}

// fewShare defines few units: less than 1/fewShare of the limit.
const fewShare = 4

// lendLocked notes the lease of a locked cell if few units of its key are left.
func (l *leases) lendLocked(c cell, limit *Limit) {
	if c.lease.units > 0 && l.conn.roundTrip() > 0 && c.leaseLocked().Left(&limit.Rate) < limit.Capacity()/fewShare {
		if l.lent == nil {
			l.lent = make(map[cell]lease)
		}
		l.lent[c] = lease{} // until the next check
	}
}

// takeBack gives back the noted leases that were unused since the last check.
func (l *leases) takeBack() {
	noted := l.lent
	l.lent = make(map[cell]lease, len(noted)/2)
	for c, was := range noted {
		c = c.lockPresent()
		switch {
		case c.Dead(), c.lease.units == 0, c.rare().inFlight > 0: // a claim's grant is noted again
		case c.lease == was:
			l.giveBackLocked(c)
		default:
			l.lent[c] = c.lease
		}
		c.Unlock()
	}
}
