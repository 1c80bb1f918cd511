package engine

import (
	"math"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// holds counts the pending requests of a key and the units they hold. A cell with any is not
// evicted: it must remember that units forgotten by the store are not to be given back.
type holds struct {
	requests int32        // and postponed leases
	mark     uint32       // changes when earlier charges are forgotten
	bucket   limiter.Held // of a token bucket
}

// hold counts a request or a postponed lease, and returns the mark.
func (r *rare) hold() (mark uint32) {
	if r.holds == nil {
		r.holds = new(holds)
	}
	r.holds.requests++
	return r.holds.mark
}

// holdLocked counts a request that holds the units it has spent.
func (p *Pending) holdLocked(now int64) {
	p.cell.changeRareLocked(func(r *rare) {
		p.mark = r.hold()
		if !p.debt && !p.limit.CountsSlots() {
			r.holds.bucket.Add(&p.limit.Rate, now, p.cost)
		}
	})
}

// voidHoldsLocked makes the held units of a cell void, because the store has forgotten them.
func (c cell) voidHoldsLocked() {
	if held := c.rare().held(); held != nil {
		held.mark++
		held.bucket = limiter.Held{}
	}
}

// release ends the hold of a request that uses some of its units. The others are given back, and
// clients that were refused for lack of them are admitted again.
func (p *Pending) release(used int64) {
	c, now := p.cell, p.engine.clock.Now()
	c.Lock()
	defer c.Unlock()
	if p.mark == c.rare().holds.mark {
		if used > 0 {
			p.keepLocked(used, now)
		}
		if back := p.cost - used; back > 0 {
			p.giveBackLocked(back, now)
		}
	}
	c.endHoldLocked()
}

// chargeMore charges units beyond the cost of a held debit: from the key's lease or at once if they
// are free, and otherwise with the next batch, whether they are free or not. A token bucket owes at
// most [limiter.Limit.MostOwed], whatever was charged before.
func (p *Pending) chargeMore(units int64) {
	e := p.engine
	c := e.table.lock(p.cell)
	defer c.Unlock()
	now := e.clock.Now()
	if !p.limit.CountsSlots() {
		lease := c.leaseLocked()
		units = min(units, p.limit.Capacity()+p.limit.MostOwed()-lease.InUseAt(&p.limit.Rate, now))
	}
	d := Debit{Limit: p.limit, Cost: units, Counting: Afterwards}
	switch {
	case units <= 0:
	case c.spendableLocked(&d, now):
		c.spendLocked(&d, now)
	case !p.chargeAtOnceLocked(c, &d):
		charge := limiter.Charge{Units: units}
		if p.limit.CountsSlots() {
			charge.At = p.limit.Slot(now)
		}
		e.chargeLocked(c, p.limit, charge)
		c.known.period = 0 // until an answer of the store counts the charge
		c.lease.used += units
	}
}

// endHoldLocked removes a request from the holds.
func (c cell) endHoldLocked() {
	c.changeRareLocked(func(r *rare) {
		if r.holds.requests--; r.holds.requests == 0 {
			r.holds = nil
		}
	})
}

func (p *Pending) keepLocked(units, now int64) {
	if !p.debt && !p.limit.CountsSlots() {
		p.cell.rare().holds.bucket.Keep(&p.limit.Rate, now, units)
	}
}

// giveBackLocked gives back units of a request: to the lease they were spent from, or to the store
// if the cell has another lease now.
func (p *Pending) giveBackLocked(units, now int64) {
	c, e := p.cell, p.engine
	switch {
	case p.debt:
		c.rare().admitted().forgive(p.limit, limiter.Charge{At: p.at, Units: units}, now)
	case !p.limit.CountsSlots():
		lease := c.leaseLocked()
		c.rare().holds.bucket.Release(&p.limit.Rate, &lease, now, units)
		c.setLeaseLocked(lease)
	case c.lease.at == p.at && c.slotsLocked().span == 0:
		c.lease.units += units
		c.lease.spent = max(c.lease.spent-units, 0)
	default:
		e.committer.leases.giveLeaseLocked(c, p.limit, limiter.Lease{At: p.at, Units: units, Used: units}, now)
	}
	c.liftBlocksLocked(c.lease.used-c.lease.units, now)
	c.liftLocalBlocksLocked()
	e.committer.leases.shareLocked(c, p.limit)
}

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
	case c.rare().claims() > 0:
		c.changeRareLocked(func(r *rare) { r.shares = true })
	default:
		l.giveBackLocked(c)
	}
}

// shareAnsweredLocked is shareLocked for a cell whose claim is answered, if units came back
// meanwhile.
func (l *leases) shareAnsweredLocked(c cell, limit *Limit) {
	if r := c.rare(); r == nil || !r.shares || r.inFlight > 0 {
		return
	}
	c.changeRareLocked(func(r *rare) { r.shares = false })
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
			if open := c.rare().openEntry(); open != nil {
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
