package engine // decision

import "github.com/caddy-tally/caddy-tally/limiter"

// charge charges a pending request that turned out to count, as far as its cost is free (decision 82): from the
// key's lease, at once, with the next batch, or as a debt while the store can't be used.
func (p *Pending) charge() {
	e := p.engine
	c := e.table.lock(p.cell)
	defer c.Unlock()
	now, d := e.clock.Now(), Debit{Limit: p.limit, Cost: p.cost, Counting: Afterwards}
	degraded := e.committer.degraded.Load()
	switch {
	case c.spendableLocked(&d, now):
		c.spendLocked(&d, now)
		return
	case c.blocks().refuses(p.limit, 1, now, degraded) != nil: // nothing is free
		return
	case p.chargeAtOnceLocked(c, &d):
		return
	case !degraded && e.committer.queue.join(func(b *batch) { b.chargeAfterwardsLocked(c, &d, now) }) != nil:
		return
	}
	if taken := c.takeLocked(&d, now, e.share()); taken.Units > 0 {
		c.addDebtLocked(p.limit, limiter.Charge{At: taken.At, Units: taken.Units}, now)
	}
}

// chargeAtOnceLocked charges a debit at once, if that is possible and all of it is free.
func (p *Pending) chargeAtOnceLocked(c cell, d *Debit) bool {
	e := p.engine
	at, ok := e.committer.leases.atOnce()
	if !ok || !at.claimLocked(c, d) {
		return false
	}
	e.table.claims.add()
	if !c.spendableLocked(d, at.now) {
		return false
	}
	c.spendLocked(d, at.now)
	return true
}

// chargeAfterwardsLocked adds a claim to the open batch for a request that doesn't wait. It is
// combined with the claim of requests that wait for the same amount.
func (b *batch) chargeAfterwardsLocked(c cell, d *Debit, now int64) {
	open := c.rare().open
	unawaited := open != nil && open.unawaited
	en := b.claimLocked(c, &Debit{Limit: d.Limit, Cost: 1, Counting: d.Counting}, now)
	en.wanted += d.Cost - 1
	en.afterwards += d.Cost
	en.unawaited = en != open || unawaited
}

// spendAfterwardsLocked spends the grant of a claim on its requests that don't wait.
func (e *entry) spendAfterwardsLocked(now int64) {
	c := e.cell
	if e.afterwards == 0 {
		return
	}
	lease := c.leaseLocked()
	lease.SpendWorth(&e.limit.Rate, now, min(e.afterwards, lease.Worth(&e.limit.Rate, now)))
	c.setLeaseLocked(lease)
}

// oweAfterwardsLocked turns the units that a failed batch should have charged to requests that
// don't wait into a debt.
func (e *entry) oweAfterwardsLocked(now int64) {
	c := e.cell
	if e.afterwards == 0 {
		return
	}
	charge := limiter.Charge{Units: min(e.afterwards, e.limit.Capacity())}
	if e.limit.CountsSlots() {
		charge.At = e.limit.Slot(now)
	}
	c.oweLocked(e.limit, charge, now)
}
