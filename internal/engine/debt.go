package engine // outage

import "github.com/caddy-tally/caddy-tally/limiter"

// addDebtLocked notes units admitted by memory that are to be charged to the store.
func (c cell) addDebtLocked(limit *Limit, charge limiter.Charge, now int64) {
	local := c.rare().local
	if local == nil { // it was about to be charged, and seemed settled
		local = newLocal(limit, c.leaseLocked())
		limit.Claim(&local.state, limiter.Claim{Now: now, Charge: charge})
		c.setLocalLocked(local)
	}
	c.setLimitLocked(limit)
	local.debts = local.debts.Add(&limit.Rate, charge, &local.state, now)
}

// settle spends a grant on the debts. The grant came too late for its waiting requests, which
// memory admitted meanwhile. Memory counts the rest as used, because the key's lease holds it.
func (l *local) settle(limit *Limit, granted *limiter.Lease, now int64) (back limiter.Lease) {
	l.debts, back = l.debts.Settle(&limit.Rate, granted, now)
	rest := limiter.Charge{At: granted.At, Units: granted.Units}
	limit.Claim(&l.state, limiter.Claim{Now: now, Charge: rest})
	return back
}

// forgive cancels a debt, unless the store has been charged with it already: then it stays charged.
func (l *local) forgive(limit *Limit, charge limiter.Charge, now int64) {
	if l == nil {
		return
	}
	forgiven := l.debts.Forgive(&limit.Rate, charge)
	l.giveBack(limit, limiter.Lease{At: charge.At, Units: forgiven, Used: forgiven}, now)
}

// giveBack gives back units taken from a share of the limit.
func (l *local) giveBack(limit *Limit, taken limiter.Lease, now int64) {
	limit.Claim(&l.state, limiter.Claim{Now: now, Return: taken})
}

// hasDebts reports whether units of the key are still to be charged.
func (l *local) hasDebts() bool { return l != nil && len(l.debts) > 0 }

// chargeLocked moves the debts of a key to a batch, which settles them once the store is in use
// again. While claims are in flight the key keeps its debts, because the store doesn't know of them
// when it grants: local.settle settles them from the grants.
func (b *batch) chargeLocked(c cell) {
	local := c.rare().local
	if local == nil || c.rare().inFlight > 0 {
		return
	}
	for _, charge := range local.debts {
		if charge.Units == 0 {
			continue
		}
		b.addChargeLocked(c, c.limit(), charge)
	}
	local.debts = nil
}

// addChargeLocked adds a charge to the batch. Until it is answered the cell, which may not count it,
// claims nothing at once and stays in the table: not even after the answer to a claim of the same
// batch.
func (b *batch) addChargeLocked(c cell, limit *Limit, charge limiter.Charge) *entry {
	e := &entry{cell: c, limit: limit, batch: b, charge: charge}
	if last := b.entryOf(c); last != nil {
		e.given = last.given
	}
	b.entries = append(b.entries, e)
	c.changeRareLocked(func(r *busy) { r.open = e })
	return e
}
