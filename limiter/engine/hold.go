package engine

import (
	"math"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// holds is what requests hold of a key until it is known whether they count. A cell with any is
// not evicted, so that what it forgets because the store did is not given back afterwards.
type holds struct {
	requests int32        // and leases that are postponed
	mark     uint32       // changes when what was charged before is forgotten
	bucket   limiter.Held // of a token bucket
}

// holdLocked notes that a request holds what it has spent.
func (p *Pending) holdLocked(now int64) {
	p.cell.changeRareLocked(func(r *rare) {
		r.holds.requests++
		p.mark = r.holds.mark
		if !p.debt && !p.limit.CountsSlots() {
			r.holds.bucket.Add(&p.limit.Limit, now, p.cost)
		}
	})
}

// voidHoldsLocked has nothing given back of what requests hold: the store has forgotten it.
func (c *cell) voidHoldsLocked() {
	if c.rare == nil || c.rare.holds.requests == 0 {
		return
	}
	c.rare.holds.mark++
	c.rare.holds.bucket = limiter.Held{}
}

// release ends that a request holds something. If it doesn't count, that is given back, and
// clients that were refused because of it are let in again.
func (p *Pending) release(counts bool) {
	c, now := p.cell, p.engine.clock.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.mark == c.rare.holds.mark {
		if counts {
			p.keepLocked(now)
		} else {
			p.giveBackLocked(now)
		}
	}
	c.endHoldLocked()
}

// endHoldLocked notes that a request holds nothing any more.
func (c *cell) endHoldLocked() {
	c.changeRareLocked(func(r *rare) {
		if r.holds.requests--; r.holds.requests == 0 {
			r.holds = holds{}
		}
	})
}

func (p *Pending) keepLocked(now int64) {
	if !p.debt && !p.limit.CountsSlots() {
		p.cell.rare.holds.bucket.Keep(&p.limit.Limit, now, p.cost)
	}
}

// giveBackLocked gives back what a request holds: to the lease that it was spent from, or to
// the store if that has another lease now.
func (p *Pending) giveBackLocked(now int64) {
	c, e := p.cell, p.engine
	switch {
	case p.debt:
		c.rare.admitted().forgive(p.limit, limiter.Charge{At: p.at, Units: p.cost}, now)
	case !p.limit.CountsSlots():
		lease := c.leaseLocked()
		c.rare.holds.bucket.Release(&p.limit.Limit, &lease, now, p.cost)
		c.setLeaseLocked(lease)
	case c.lease.at == p.at:
		c.lease.units += p.cost
		c.lease.spent = max(c.lease.spent-p.cost, 0)
	default:
		e.committer.leases.giveLeaseLocked(c, p.limit, limiter.Lease{At: p.at, Units: p.cost, Used: p.cost}, now)
	}
	c.blocks.liftLocked(c.lease.used-c.lease.units, now)
	c.blocks.liftLocalLocked()
	e.committer.leases.shareLocked(c, p.limit)
}

// shareLocked gives back what a locked cell holds, but for a small part of the limit, where other
// processes use the store: what requests have held is theirs as well as soon as it comes back. A
// claim that is in flight does so when it is answered.
func (l *leases) shareLocked(c *cell, limit *Limit) {
	lease := c.leaseLocked()
	units := lease.Units
	if lease.HeldPart > 0 {
		units++ // nobody else can use a unit of which a part is held
	}
	switch {
	case units <= limit.Capacity()/headroomShare || !l.othersHold():
	case c.rare.claims() > 0:
		c.changeRareLocked(func(r *rare) { r.shares = true })
	default:
		l.giveBackLocked(c)
	}
}

// shareAnsweredLocked is shareLocked for a cell whose claim is answered, if something came back
// meanwhile.
func (l *leases) shareAnsweredLocked(c *cell, limit *Limit) {
	if c.rare == nil || !c.rare.shares || c.rare.inFlight > 0 {
		return
	}
	c.changeRareLocked(func(r *rare) { r.shares = false })
	l.shareLocked(c, limit)
}

// othersHold reports whether other processes use the store. It notices at once that another one has
// ended the store's period, before that one is counted.
func (l *leases) othersHold() bool { return l.conn.processes() > 1 || l.conn.hasLostPeriod() }

// noticeOthers has the janitor share what memory holds when other processes begin to use the store.
func (l *leases) noticeOthers() {
	others := l.othersHold()
	if others && !l.shared {
		select {
		case l.others <- struct{}{}:
		default: // it is about to
		}
	}
	l.shared = others
}

// share gives back what memory holds beyond a small part of each limit, and has the store asked again
// for what it has refused: other processes may have it by now.
func (j *janitor) share() {
	m := j.committer
	_ = m.conn.join() // if it fails, the next cleanup's one does as well
	inTurn, now := j.inTurn(), m.clock.now()
	m.table.each(func(c *cell) {
		var b *batch
		c.mu.Lock()
		if !c.dead && c.limit != nil {
			c.blocks.askAgainLocked(now)
			m.leases.shareLocked(c, c.limit)
			if open := c.rare.openEntry(); open != nil {
				b = open.batch
			}
		}
		c.mu.Unlock()
		inTurn(b)
	})
}

// asksEvery is how often the store is asked whether other processes have given back what requests
// held of a key that it has refused.
const asksEvery = time.Second

// asksAgain returns how long a refusal counts without asking the store again.
func (l *leases) asksAgain(en *entry) int64 {
	if en.counting == Held && l.othersHold() {
		return int64(asksEvery)
	}
	return math.MaxInt64
}
