package engine

import (
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// Elsewhere is what is used of a key where the store of this engine does not count it, for
// example in another region. Limits with slots are lowered by it, and memory refuses what is more
// than it leaves. Token buckets are charged instead, see [Engine.Charge].
//
// Its methods are called with cells locked. They must not wait for anything, and must not call
// the engine. They may be called from several goroutines at a time.
type Elsewhere interface {
	// Units returns how many units count at a time.
	Units(now int64) int64
	// Retry returns how long to wait until cost units of an amount are free beside those that
	// are used here and elsewhere, or [limiter.Never].
	Retry(amount, cost, now int64) time.Duration
	// Admit is told that a request counts of which that was not known when it was allowed, see
	// [Pending]. What other requests take is for those to count who have called Decide.
	Admit(units, now int64)
}

// lower lowers the limits of debits by what is used elsewhere as of the request's time.
func (r *request) lower() {
	for i := range r.debits {
		d := &r.debits[i]
		if d.Elsewhere == nil {
			continue
		}
		d.whole = d.Whole()
		d.Limit = lowered(d.whole, d.Elsewhere, r.now)
	}
}

// lowered returns a limit lowered by what is used elsewhere, which may be nil.
func lowered(limit *Limit, by Elsewhere, now int64) *Limit {
	if by == nil {
		return limit
	}
	units := by.Units(now)
	if units <= 0 {
		return limit
	}
	less := *limit
	less.Limit = limit.Less(units)
	return &less
}

// Whole returns the limit of a debit as it was before it was lowered.
func (d *Debit) Whole() *Limit {
	if d.whole != nil {
		return d.whole
	}
	return d.Limit
}

// exceedsElsewhere reports whether a debit costs more than what is used elsewhere leaves, and how
// much that is.
func (d *Debit) exceedsElsewhere(now int64) (left int64, exceeds bool) {
	if d.Elsewhere == nil || d.Cost <= 0 {
		return 0, false
	}
	left = max(d.Whole().Capacity()-d.Elsewhere.Units(now), 0)
	return left, d.Cost > left
}

// retry returns how long a refused debit has to wait: what the store said of the lowered limit,
// or less if something that is used elsewhere is free again sooner.
func (d *Debit) retry(told time.Duration, now int64) time.Duration {
	if d.Elsewhere == nil {
		return told
	}
	if sooner := d.Elsewhere.Retry(d.Whole().Capacity(), d.Cost, now); sooner > 0 && (told == limiter.Never || sooner < told) {
		return sooner
	}
	return told
}

// Charge charges units of a key that were used elsewhere, whatever its limit says. It doesn't
// wait. While the store can't be used the units are a debt, as those that memory admits; a charge
// with a floor is lost then.
func (e *Engine) Charge(limit *Limit, key []byte, charge limiter.Charge) {
	if charge.Units <= 0 {
		return
	}
	c := e.table.lock(e.table.add(limit.ID, key))
	defer c.mu.Unlock()
	if c.limit == nil {
		c.limit = limit
	}
	b := e.committer.queue.join(func(b *batch) {
		b.entries = append(b.entries, &entry{cell: c, limit: limit, batch: b, charge: charge, news: true})
	})
	if b == nil && !charge.Floor {
		c.oweLocked(limit, charge, e.clock.now())
	}
}

// oweLocked notes a debt that memory doesn't count as used yet.
func (c *cell) oweLocked(limit *Limit, charge limiter.Charge, now int64) {
	if local := c.rare.admitted(); local != nil {
		limit.Claim(&local.state, limiter.Claim{Now: now, Charge: charge})
	}
	c.addDebtLocked(limit, charge, now)
}
