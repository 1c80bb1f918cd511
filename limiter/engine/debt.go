package engine

import (
	"slices"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// addDebtLocked notes units that memory has admitted and the store is to charge.
func (c *cell) addDebtLocked(limit *Limit, charge limiter.Charge, now int64) {
	if c.local == nil { // it was about to be charged, and seemed settled
		c.local = newLocal(limit, c.lease)
		limit.Claim(&c.local.state, limiter.Claim{Now: now, Charge: charge})
	}
	c.limit = limit
	if limit.Algorithm() == limiter.TokenBucket {
		c.local.addBucketDebt(charge)
		return
	}
	debts := c.local.debts
	if last := len(debts) - 1; last >= 0 && limit.Together(debts[last].At, charge.At) {
		debts[last].At = max(debts[last].At, charge.At)
		debts[last].Units += charge.Units
		return
	}
	debts = slices.DeleteFunc(debts, func(c limiter.Charge) bool { return c.At < limit.Oldest(now) })
	c.local.debts = append(debts, charge)
}

// addBucketDebt notes units of a token bucket. All that is to be charged is what is in
// use by now at the reduced rate at which memory drains it: the rest has drained at the
// full rate as well.
func (l *local) addBucketDebt(charge limiter.Charge) {
	inUse := l.state.Bucket.Units
	if l.state.Bucket.Part > 0 {
		inUse++
	}
	for _, debt := range l.debts {
		charge.Units += debt.Units
	}
	charge.Units = min(charge.Units, inUse)
	l.debts = append(l.debts[:0], charge)
}

// settleDebtsLocked spends a grant on the key's debts. The grant came too late for the
// requests that waited for it, and memory admitted them meanwhile. Memory counts the rest
// as used, because the key's lease holds it. Units are never booked before the slot they
// were spent in: for debts of later slots, which are charged there with the next claim,
// as many units are given back.
func (c *cell) settleDebtsLocked(limit *Limit, granted *limiter.Lease, now int64) (back limiter.Lease) {
	back.At = granted.At
	for i := range c.local.debts {
		debt := &c.local.debts[i]
		settled := min(debt.Units, granted.Units)
		switch {
		case limit.Slots() == 0:
			if settled = min(settled, limit.Worth(granted, now)); limit.Spend(granted, now, settled) {
				debt.Units -= settled
			}
		case debt.At > granted.At:
			granted.Units -= settled
			granted.Used -= settled
			back.Units += settled
			back.Used += settled
		default:
			granted.Units -= settled
			granted.Spent += settled
			debt.Units -= settled
		}
	}
	c.local.debts = slices.DeleteFunc(c.local.debts, func(debt limiter.Charge) bool { return debt.Units == 0 })
	rest := limiter.Charge{At: granted.At, Units: granted.Units}
	limit.Claim(&c.local.state, limiter.Claim{Now: now, Charge: rest})
	return back
}

// chargeLocked moves the debts of a key to a batch, which settles them once the store
// is in use again. While claims are in flight the key keeps its debts, because the store
// doesn't know of them when it grants: settleDebtsLocked settles them from the grants.
func (b *batch) chargeLocked(c *cell) {
	if c.local == nil || c.inFlight > 0 {
		return
	}
	for _, charge := range c.local.debts {
		if charge.Units == 0 {
			continue
		}
		b.entries = append(b.entries, &entry{cell: c, limit: c.limit, batch: b, charge: charge})
	}
	c.local.debts = nil
}

// hasDebt reports whether something of the key is still to be charged.
func (c *cell) hasDebt() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.local != nil && len(c.local.debts) > 0
}
