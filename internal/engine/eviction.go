package engine // cells

import (
	"github.com/caddy-tally/caddy-tally/internal/engine/table"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// This file says which cells stay in memory, and how they leave their place there.

// The ranks of cells among those that the table knows.
const (
	indebted = table.Active + 1 + iota // units of it are to be charged to the store
	valuable                           // it is near its limit, or blocked
)

// Rank implements [table.Owner]. Pinned cells have claims or charges in flight, or requests hold units of them. So
// the table exceeds its maximum by at most one for each of these.
func (t *cells) Rank(e *table.Entry) table.Rank {
	c := t.of(e)
	r := c.rare()
	switch {
	case r.inFlight > 0 || r.holds != nil || r.open != nil && r.open.charge.Units > 0:
		return table.Pinned
	case r.newest.Load() != nil, c.isNearLimit(), c.client().hasRecord():
		return valuable
	case r.local != nil:
		return indebted
	}
	return table.Idle
}

// isNearLimit reports whether the key of a locked cell has used half of its limit or more.
func (c cell) isNearLimit() bool {
	limit := c.limit()
	if limit == nil {
		return false
	}
	used := c.usedLocked()
	if local := c.rare().local; local != nil {
		for _, charge := range local.debts {
			used += charge.Units
		}
	}
	return used >= (limit.Capacity()+1)/2
}

// Release implements [table.Owner]. The lease is in a batch before another request can claim for the key.
func (t *cells) Release(e *table.Entry) <-chan struct{} {
	if b := t.give(t.of(e)); b != nil {
		return b.done
	}
	return nil
}

// Copy implements [table.Owner].
func (t *cells) Copy(from, to *table.Entry) {
	old, fresh := t.of(from), t.of(to)
	fresh.setLeaseLocked(old.leaseLocked())
	fresh.known, fresh.headroom, fresh.limitIs = old.known, old.headroom, old.limitIs
	if slots := old.slotsLocked(); slots != nil {
		fresh.slotsLocked().ahead, fresh.slotsLocked().phase = slots.ahead, slots.phase
	}
	fresh.refused.counted.Store(old.refused.counted.Load())
	if r := old.rare(); r != &noRare {
		fresh.SetNumber(t.rares.Add(r.copied(fresh.body)))
	}
	old.setLeaseLocked(limiter.Lease{})
}

// sweep removes cells that were unused for some sweeps. Those of blocked keys and banned clients stay, and those
// with units that are still to be charged.
func (t *cells) sweep(now int64, await func(<-chan struct{}), rest func(cells int)) (removed int) {
	return t.Sweep(func(e *table.Entry) bool {
		c := t.of(e)
		record := c
		if c.client() == nil {
			record = t.find(^c.ID, c.text()) // lists have the counts of keys with a penalty
		}
		if c.blocks().anyAt(now) || c.client().bannedAt(now) ||
			record.exists() && record.client().blockedFor(now) > 0 {
			return true
		}
		c.Lock()
		defer c.Unlock()
		return c.rare().local.hasDebts()
	}, await, rest)
}
