package engine // decision

import "github.com/caddy-tally/caddy-tally/limiter"

// holds counts the pending requests of a key and the units they hold. A cell with any is not
// evicted: it must remember that units forgotten by the store are not to be given back.
type holds struct {
	requests int32        // and postponed leases
	mark     uint32       // changes when earlier charges are forgotten
	latest   int64        // when the last of the requests came
	bucket   limiter.Held // of a token bucket
}

// hold counts a request or a postponed lease, and returns the mark.
func (r *busy) hold() (mark uint32) {
	if r.holds == nil {
		r.holds = new(holds)
	}
	r.holds.requests++
	return r.holds.mark
}

// copied returns a copy for a forecast.
func (h *holds) copied() *holds {
	own := *h
	return &own
}

// holdLocked counts a request that holds the units it has spent.
func (p *Pending) holdLocked(now int64) {
	p.cell.changeRareLocked(func(r *busy) {
		p.mark = r.hold()
		r.holds.latest = now
		if !p.debt && !p.limit.CountsSlots() {
			r.holds.bucket.Add(&p.limit.Rate, now, p.cost)
		}
	})
}

// voidHoldsLocked makes the held units of a cell void, because the store has forgotten them.
func (c cell) voidHoldsLocked() {
	if held := c.rare().holds; held != nil {
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
		c.useMoreLocked(units)
	}
}

// endHoldLocked removes a request from the holds.
func (c cell) endHoldLocked() {
	c.changeRareLocked(func(r *busy) {
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
		c.rare().local.forgive(p.limit, limiter.Charge{At: p.at, Units: units}, now)
	case !p.limit.CountsSlots():
		lease := c.leaseLocked()
		c.rare().holds.bucket.Release(&p.limit.Rate, &lease, now, units)
		c.setLeaseLocked(lease)
	case !c.putBackLocked(p.at, units):
		e.committer.leases.giveLeaseLocked(c, p.limit, limiter.Lease{At: p.at, Units: units, Used: units}, now)
	}
	c.liftBlocksLocked(c.usedLocked(), now)
	c.liftLocalBlocksLocked()
	e.committer.leases.shareLocked(c, p.limit)
}
