package engine

import (
	"errors"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// deliver brings what the store has answered to the cell.
func (m *committer) deliver(en *entry, now int64) {
	c := en.cell
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rare.openEntry() != en {
		en.period = 0 // more of the cell is to be answered, or was since, and claims at once may have come between
	}
	en.answeredLocked()
	defer m.shareAnsweredLocked(c, en.limit)
	c.blocks.liftLocked(en.grant.InUse(), now)
	c.rewindLocked(en.limit, now)
	if en.cost == 0 {
		en.learnedLocked(en.learnLocked(now)) // it only gave back, or charged
		return
	}
	if en.client != nil {
		c.limit = en.limit // which may have been another when it was claimed
	}
	if c.rare.admitted() != nil && !c.rare.admitted().hasDebts() {
		c.setLocalLocked(nil) // settled with this claim or before
	}
	if en.grant.Units == 0 && en.renews {
		en.notRenewedLocked()
		en.learnedLocked(false)
		return
	}
	if en.grant.Units == 0 {
		en.learnedLocked(en.refusedLocked(now, m.asksAgain(en)))
		return
	}
	granted := en.grant.Lease // the entry's stays what it is: the requests that wait for it were not refused
	if c.rare.admitted() != nil {
		back := c.rare.admitted().settle(en.limit, &granted, m.clock.now()) // what was granted may have drained since
		m.giveLeaseLocked(c, en.limit, back, now)
	}
	m.giveLeaseLocked(c, en.limit, c.joinLocked(en.limit, granted), now)
	en.spendAfterwardsLocked(now)
	en.learnedLocked(true)
	m.lendLocked(c, en.limit)
}

// giveLeaseLocked gives back a lease that a locked cell can't hold. On a network it waits for
// something that is worth a round trip. While the store can't be used, it is postponed.
func (m *committer) giveLeaseLocked(c *cell, limit *Limit, lease limiter.Lease, now int64) {
	settles := lease.Settles(&limit.Limit, now)
	if settles <= 0 {
		return
	}
	var joined bool
	give := func(b *batch) { b.giveLocked(c, limit, lease, settles) }
	if m.conn.roundTrip() > 0 {
		joined = m.queue.joinQuietly(give)
	} else {
		joined = m.queue.join(give) != nil
	}
	if !joined {
		m.queue.postponeLocked(c, limit, lease)
	}
}

// learnLocked notes what the store tells of the key, and reports whether it did. If the key
// holds something, what is known with that is kept.
func (en *entry) learnLocked(now int64) bool {
	c := en.cell
	if c.leaseLocked().Settles(&en.limit.Limit, now) > 0 {
		return false
	}
	c.joinLocked(en.limit, en.grant.Lease)
	return true
}

// answeredLocked notes that an entry does not wait any more.
func (en *entry) answeredLocked() {
	c := en.cell
	if en.cost == 0 && c.rare.openEntry() != en {
		return
	}
	c.changeRareLocked(func(r *rare) {
		if en.cost > 0 {
			r.inFlight--
		}
		if r.open == en {
			r.open = nil
		}
	})
}

// refusedLocked remembers a refusal, unless this process holds something of the
// key, or is about to give it back: then there may be enough, or will be sooner
// than the store says. All that its own batch gives back, the claim was after. The store is
// asked again after asks at the latest. It reports whether it did.
func (en *entry) refusedLocked(now, asks int64) bool {
	c := en.cell
	en.held = c.leaseLocked().Settles(&en.limit.Limit, now)
	if open := c.rare.openEntry(); open != nil && open.batch != en.batch {
		en.held += open.given
	}
	if en.held > 0 {
		return false
	}
	c.joinLocked(en.limit, en.grant.Lease)
	if en.unawaited {
		return true // the first request that is refused is to be news
	}
	en.fresh.Store(!c.blocks.wasRefused(en.limit, en.cost, now))
	c.blocks.addLocked(block{
		until:    now + int64(en.grant.Retry),
		asks:     now + min(int64(en.grant.Retry), asks),
		cost:     en.cost,
		left:     en.grant.Lease.Left(&en.limit.Limit),
		amount:   en.limit.Amount(),
		capacity: en.limit.Capacity(),
		held:     en.counting == Held,
	}, now)
	return true
}

// keepLocked keeps what an entry should have given back. A lease that isn't the cell's is
// postponed: it knows less than the cell does.
func (m *committer) keepLocked(en *entry) {
	if c := en.cell; c.lease.at == en.give.At || !en.limit.CountsSlots() {
		c.joinLocked(en.limit, en.give)
	} else {
		m.queue.postponeLocked(c, en.limit, en.give)
	}
}

// undo takes back what entries that were not applied would have given back. If err says that
// they may have been applied, those units are given up: they stay charged, or are free already.
func (m *committer) undo(entries []*entry, err error) {
	unknown, now := errors.Is(err, storage.ErrUnknownOutcome), m.clock.now()
	for _, en := range entries {
		c := en.cell
		c.mu.Lock()
		en.answeredLocked()
		if !unknown && !c.dead && en.give.Holds() {
			m.keepLocked(en)
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
		c.mu.Unlock()
	}
}
