package engine

import "github.com/caddy-tally/caddy-tally/limiter"

// addDebtLocked notes units that memory has admitted and the store is to charge.
func (c *cell) addDebtLocked(limit *Limit, charge limiter.Charge, now int64) {
	local := c.localLocked()
	if local == nil { // it was about to be charged, and seemed settled
		local = newLocal(limit, c.leaseLocked())
		limit.Claim(&local.state, limiter.Claim{Now: now, Charge: charge})
		c.setLocalLocked(local)
	}
	c.limit = limit
	local.debts = local.debts.Add(&limit.Limit, charge, &local.state, now)
}

// settleDebtsLocked spends a grant on the key's debts. The grant came too late for the
// requests that waited for it, and memory admitted them meanwhile. Memory counts the rest
// as used, because the key's lease holds it.
func (c *cell) settleDebtsLocked(limit *Limit, granted *limiter.Lease, now int64) (back limiter.Lease) {
	local := c.localLocked()
	local.debts, back = local.debts.Settle(&limit.Limit, granted, now)
	rest := limiter.Charge{At: granted.At, Units: granted.Units}
	limit.Claim(&local.state, limiter.Claim{Now: now, Charge: rest})
	return back
}

// chargeLocked moves the debts of a key to a batch, which settles them once the store
// is in use again. While claims are in flight the key keeps its debts, because the store
// doesn't know of them when it grants: settleDebtsLocked settles them from the grants.
func (b *batch) chargeLocked(c *cell) {
	local := c.localLocked()
	if local == nil || c.inFlightLocked() > 0 {
		return
	}
	for _, charge := range local.debts {
		if charge.Units == 0 {
			continue
		}
		b.entries = append(b.entries, &entry{cell: c, limit: c.limit, batch: b, charge: charge})
	}
	local.debts = nil
}

// hasDebt reports whether something of the key is still to be charged.
func (c *cell) hasDebt() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hasDebtLocked()
}

func (c *cell) hasDebtLocked() bool {
	local := c.localLocked()
	return local != nil && len(local.debts) > 0
}
