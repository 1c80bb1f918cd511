package engine // leases

import (
	"math"
	"time"
)

// Other processes may use the store, too: units that this one doesn't need are of use to them.

// shareLocked gives back the units of a locked cell, except a small part of the limit, if other
// processes use the store: units held by requests are available to them as well, as soon as they
// come back. If a claim is in flight, its answer does this.
func (l *leases) shareLocked(c cell, limit *Limit) {
	lease := c.leaseLocked()
	units := lease.Units
	if lease.HeldPart > 0 {
		units++ // a unit with a held part is of no use to other processes
	}
	switch {
	case units <= limit.Capacity()/headroomShare || !l.conn.mayShare():
	case c.rare().inFlight > 0:
		c.changeRareLocked(func(r *busy) { r.shares = true })
	default:
		l.giveBackLocked(c)
	}
}

// shareAnsweredLocked is shareLocked for a cell whose claim is answered, if units came back
// meanwhile.
func (l *leases) shareAnsweredLocked(c cell, limit *Limit) {
	if r := c.rare(); !r.shares || r.inFlight > 0 {
		return
	}
	c.changeRareLocked(func(r *busy) { r.shares = false })
	l.shareLocked(c, limit)
}

// noticeOthers makes the janitor share memory's units when other processes begin to use the store.
func (l *leases) noticeOthers() {
	others := l.conn.mayShare()
	if others && !l.shared {
		select {
		case l.others <- struct{}{}:
		default: // it is about to
		}
	}
	l.shared = others
}

// share gives back all units in memory beyond a small part of each limit, and lifts refusals so
// that the store is asked again: other processes may have given back units.
func (j *janitor) share() {
	m := j.committer
	_ = m.conn.join() // if it fails, the join of the next cleanup does as well
	inTurn, now := j.inTurn(), m.clock.Now()
	m.table.each(func(c cell) {
		var b *batch
		c = c.lockPresent()
		if !c.Dead() && c.limit() != nil {
			c.askAgainLocked(now)
			m.leases.shareLocked(c, c.limit())
			if open := c.rare().open; open != nil {
				b = open.batch
			}
		}
		c.Unlock()
		inTurn(b)
	})
}

// asksEvery is how often the store is asked whether other processes have given back held units of a
// refused key.
const asksEvery = time.Second

// asksAgain returns for how many nanoseconds a refusal counts without asking the store again.
func (l *leases) asksAgain(en *entry) int64 {
	if en.counting == Held && l.conn.mayShare() {
		return int64(asksEvery)
	}
	return math.MaxInt64
}
