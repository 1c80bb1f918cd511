package engine // decision

import (
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// Counting selects the allowed requests that use up units of a limit.
type Counting uint8

// The ways of counting. The zero value is [Always].
const (
	// Always counts every request.
	Always Counting = iota
	// Afterwards decides later whether a request counts, and takes nothing before. A request is
	// allowed if its cost is free. When it turns out to count it is charged, as far as its cost is
	// still free. The number of concurrent requests may exceed the limit.
	Afterwards
	// Held decides later how much a request counts, and takes the cost before. A request is charged
	// like any other. Units that it turns out not to use are given back, and units that it uses
	// beyond its cost are charged.
	Held
)

// Pending is a debit of an allowed request that may or may not count. [Pending.Settle] and
// [Pending.SettleAt] tell the engine whether it does, and how much. Units held by a request that is
// never settled stay charged, and its key stays in memory. Both may be called after the engine was
// closed.
type Pending struct {
	// Counted is the quota left for the key if the request counts. The debit's Quota is the one
	// left if it doesn't.
	Counted limiter.Quota

	settled atomic.Bool
	held    bool // units are taken
	debt    bool // by memory, without the store
	engine  *Engine
	beside  Foreign // notified if the request counts; nil if there is none
	cell    cell
	limit   *Limit
	cost    int64
	at      int64  // the slot that the units were charged in
	mark    uint32 // of the holds of the cell
}

// Key returns a copy of the text of the key.
func (p *Pending) Key() []byte { return []byte(p.cell.key()) }

// Cost returns the units that the request uses up if it counts.
func (p *Pending) Cost() int64 { return p.cost }

// Settle says whether the request counts with its cost. It doesn't wait. Of all calls of Settle and
// SettleAt, even concurrent ones, only the first has an effect.
func (p *Pending) Settle(counts bool) {
	if counts {
		p.SettleAt(p.cost)
	} else {
		p.SettleAt(0)
	}
}

// SettleAt says how many units the request uses, from 0. Of units beyond the cost of a held debit at
// most [limiter.Limit.MostOwed] are charged, even if they are not free (decision 146): the key then owes them. Other
// debits are charged their cost, or nothing for 0 units.
func (p *Pending) SettleAt(units int64) {
	if p.settled.Swap(true) {
		return
	}
	more := min(units-p.cost, p.limit.MostOwed())
	if units > 0 && p.beside != nil {
		p.beside.Admit(min(units, p.cost+max(more, 0)), p.engine.clock.Now())
	}
	if !p.held {
		if units > 0 {
			p.charge()
		}
		return
	}
	p.release(min(units, p.cost))
	if more > 0 {
		p.chargeMore(more)
	}
}

// reserveLocked allows a pending debit that is covered by the lease of the locked cell.
func (r *request) reserveLocked(c cell, d *Debit) {
	before := c.leaseLocked()
	free := before.Quota(&d.Limit.Rate, r.now)
	c.spendLocked(d, r.now)
	d.Pending = &Pending{
		Counted: d.Quota, held: d.Counting == Held,
		beside: d.Foreign, cell: c, limit: d.Limit, cost: d.Cost, at: c.chargedLocked(),
	}
	d.Quota = free
	if d.Counting == Held {
		d.Pending.holdLocked(r.now)
	} else {
		c.setLeaseLocked(before)
	}
}

// reserveLocallyLocked allows a pending debit if memory decides and has taken its cost from a share
// of the limit.
func (r *request) reserveLocallyLocked(c cell, d *Debit, taken limiter.Lease) {
	d.Pending = &Pending{
		Counted: d.Quota, held: d.Counting == Held, debt: true,
		beside: d.Foreign, cell: c, limit: d.Limit, cost: d.Cost, at: taken.At,
	}
	d.Quota.Remaining += d.Cost
	if d.Counting == Held {
		c.addDebtLocked(d.Limit, limiter.Charge{At: taken.At, Units: d.Cost}, r.now)
		d.Pending.holdLocked(r.now)
	} else {
		c.rare().local.giveBack(d.Limit, taken, r.now)
	}
}
