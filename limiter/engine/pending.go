package engine

import (
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// Counting says which of the requests that a limit allows use up its units.
type Counting uint8

// The ways of counting. The zero value is [Always].
const (
	// Always says that every request does.
	Always Counting = iota
	// Afterwards says that this is known later, and nothing is taken before: a request is
	// allowed if its cost is free, and charged when it is known to count, as far as its cost is
	// still free. Requests that are under way at a time may be more than the limit.
	Afterwards
	// Held says that this is known later, and the cost is taken before: a request is charged as
	// any other, and what it took is given back when it is known not to count.
	Held
)

// Pending is a debit of an allowed request of which it is not known yet whether it counts.
// [Pending.Settle] says so. What is held of a request that is never settled stays charged, and
// its key stays in memory. The engine need not be open any more.
type Pending struct {
	// Counted is what is left for the key if the request counts. The debit's Quota is what is
	// left if it doesn't.
	Counted limiter.Quota

	settled atomic.Bool
	held    bool // units are taken
	debt    bool // by memory, without the store
	engine  *Engine
	beside  Elsewhere // is told if the request counts; nil if nothing is
	cell    *cell
	limit   *Limit
	cost    int64
	at      int64  // the slot that the units were charged in
	mark    uint32 // of what the cell's requests hold
}

// Key returns a copy of the text of the key.
func (p *Pending) Key() []byte { return []byte(p.cell.key()) }

// Cost returns the units that the request uses up if it counts.
func (p *Pending) Cost() int64 { return p.cost }

// Settle says whether the request counts. It doesn't wait. It may be called several times, also
// at once; the first call counts.
func (p *Pending) Settle(counts bool) {
	if p.settled.Swap(true) {
		return
	}
	if counts && p.beside != nil {
		p.beside.Admit(p.cost, p.engine.clock.now())
	}
	switch {
	case p.held:
		p.release(counts)
	case counts:
		p.charge()
	}
}

// reserveLocked allows a debit of which it is known later whether it counts. The lease of the
// locked cell covers it.
func (r *request) reserveLocked(c *cell, d *Debit) {
	before := c.leaseLocked()
	free := before.Quota(&d.Limit.Limit, r.now)
	c.spendLocked(d, r.now)
	d.Pending = &Pending{
		Counted: d.Quota, held: d.Counting == Held,
		beside: d.Elsewhere, cell: c, limit: d.Limit, cost: d.Cost, at: c.lease.at,
	}
	d.Quota = free
	if d.Counting == Held {
		d.Pending.holdLocked(r.now)
	} else {
		c.setLeaseLocked(before)
	}
}

// reserveLocallyLocked allows such a debit where memory decides, and has taken what it costs from
// a share of the limit.
func (r *request) reserveLocallyLocked(c *cell, d *Debit, taken limiter.Lease) {
	d.Pending = &Pending{
		Counted: d.Quota, held: d.Counting == Held, debt: true,
		beside: d.Elsewhere, cell: c, limit: d.Limit, cost: d.Cost, at: taken.At,
	}
	d.Quota.Remaining += d.Cost
	if d.Counting == Held {
		c.addDebtLocked(d.Limit, limiter.Charge{At: taken.At, Units: d.Cost}, r.now)
		d.Pending.holdLocked(r.now)
	} else {
		c.rare.admitted().giveBack(d.Limit, taken, r.now)
	}
}
