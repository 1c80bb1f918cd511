package engine // decision

import (
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// Foreign is the usage of a key that this engine's store does not count, for example in another
// region. It lowers limits with slots, and memory refuses requests above the remainder. Token
// buckets are charged instead, see [Engine.Charge].
//
// Its methods are called with cells locked. They must not wait for anything, and must not call
// the engine. They may be called from several goroutines at a time.
type Foreign interface {
	// Units returns how many units count at time now.
	Units(now int64) int64
	// Retry returns how long to wait until cost units of an amount are free beside the units used
	// here and elsewhere, or [limiter.Never].
	Retry(amount, cost, now int64) time.Duration
	// Admit is called when a pending request turns out to count, see [Pending]. The caller
	// of Decide counts the units of all other requests.
	Admit(units, now int64)
}

// lower lowers the limits of debits by their usage elsewhere as of the request's time.
func (r *request) lower() {
	for i := range r.debits {
		d := &r.debits[i]
		if d.Foreign == nil {
			continue
		}
		d.whole = d.Whole()
		d.Limit = lowered(d.whole, d.Foreign, r.now)
	}
}

// lowered returns a limit lowered by its usage elsewhere, which may be nil.
func lowered(limit *Limit, by Foreign, now int64) *Limit {
	if by == nil {
		return limit
	}
	units := by.Units(now)
	if units <= 0 {
		return limit
	}
	less := *limit
	less.Rate = limit.Less(units)
	return &less
}

// Whole returns the limit of a debit as it was before it was lowered.
func (d *Debit) Whole() *Limit {
	if d.whole != nil {
		return d.whole
	}
	return d.Limit
}

// exceedsForeign reports whether a debit costs more than the foreign usage leaves, and returns
// their number.
func (d *Debit) exceedsForeign(now int64) (left int64, exceeds bool) {
	if d.Foreign == nil || d.Cost <= 0 {
		return 0, false
	}
	left = max(d.Whole().Capacity()-d.Foreign.Units(now), 0)
	return left, d.Cost > left
}

// retry returns how long a refused debit has to wait: the store's retry time of the lowered limit,
// or less if units used elsewhere become free sooner.
func (d *Debit) retry(wait time.Duration, now int64) time.Duration {
	if d.Foreign == nil {
		return wait
	}
	if sooner := d.Foreign.Retry(d.Whole().Capacity(), d.Cost, now); sooner > 0 &&
		(wait == limiter.Never || sooner < wait) {
		return sooner
	}
	return wait
}

// Charge charges units of a key that were used elsewhere, regardless of its limit. It doesn't wait.
// While the store can't be used the units are a debt, like units admitted by memory. A charge with
// a floor is then lost.
func (e *Engine) Charge(limit *Limit, key []byte, charge limiter.Charge) {
	if charge.Units <= 0 {
		return
	}
	c := e.table.lock(e.table.add(kindOf(limit), limit.ID, key))
	defer c.Unlock()
	if c.limit() == nil {
		c.setLimitLocked(limit)
	}
	e.chargeLocked(c, limit, charge)
}

// chargeLocked is Charge for a locked cell.
func (e *Engine) chargeLocked(c cell, limit *Limit, charge limiter.Charge) {
	b := e.committer.queue.join(func(b *batch) { b.addChargeLocked(c, limit, charge).news = true })
	if b == nil && !charge.Floor {
		c.oweLocked(limit, charge, e.clock.Now())
	}
}

// oweLocked notes a debt that memory doesn't count as used yet.
func (c cell) oweLocked(limit *Limit, charge limiter.Charge, now int64) {
	if local := c.rare().local; local != nil {
		limit.Claim(&local.state, limiter.Claim{Now: now, Charge: charge})
	}
	c.addDebtLocked(limit, charge, now)
}
