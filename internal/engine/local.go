package engine // outage

import (
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// While the store can't be used, memory decides: each key may use a share of its limit, less its
// known usage. Units admitted that way are a debt (debt.go).

// local is the state of one key that memory decides about without the store.
type local struct {
	state limiter.State // known usage from before, and all since
	debts limiter.Debts // admitted units that are not charged yet, by slot
}

// newLocal returns a local that starts from the known state of a key.
func newLocal(limit *Limit, known limiter.Lease) *local {
	return &local{state: known.State(&limit.Rate)}
}

// decideLocallyLocked decides from memory alone: it takes debits covered by leases from these, and
// the rest from a percentage of the limits.
func (r *request) decideLocallyLocked(part share) {
	r.Degraded = true
	var room [inlineDebits]limiter.Grant
	grants := room[:0]
	for i := range r.held {
		h, debit := &r.held[i], &r.debits[r.held[i].debit]
		var g limiter.Grant
		if h.short {
			g = h.cell.takeLocked(debit, r.now, part)
			if g.Units == 0 {
				g.Retry = min(g.Retry, part.probe) // then the store may be back, and with it the whole limit
				h.cell.addBlockLocked(localBlock(debit, g, r.now), r.now)
				r.refuse(OverLimit, h.debit, 0, g.Retry)
				r.Fresh = true
			}
		}
		grants = append(grants, g)
	}
	for i := range r.held {
		c, debit := r.held[i].cell, &r.debits[r.held[i].debit]
		switch {
		case r.Reason != None:
			if taken := grants[i].Lease; taken.Units > 0 {
				c.rare().local.giveBack(debit.Limit, taken, r.now)
			}
		case r.held[i].short:
			debit.Known, debit.at = true, r.now
			spent := grants[i].Lease
			spent.Units = 0
			reduced := part.of(debit.Limit)
			debit.Quota, debit.Reduced = spent.Quota(&reduced, r.now), reduced.Capacity()
			r.oweLocked(c, debit, grants[i].Lease)
		default:
			r.takeLocked(c, debit)
		}
	}
	r.Allowed = r.Reason == None
}

// oweLocked notes the units that memory has taken from a share of the limit for a debit.
func (r *request) oweLocked(c cell, d *Debit, taken limiter.Lease) {
	if d.Counting == Always {
		c.addDebtLocked(d.Limit, limiter.Charge{At: taken.At, Units: d.Cost}, r.now)
	} else {
		r.reserveLocallyLocked(c, d, taken)
	}
}

// takeLocked takes a debit from a share of its limit.
func (c cell) takeLocked(debit *Debit, now int64, part share) limiter.Grant {
	reduced, local := part.of(debit.Limit), c.rare().local
	if local == nil {
		local = newLocal(debit.Limit, c.leaseLocked())
		local.state.Cap(&reduced, now)
		c.setLocalLocked(local)
	}
	c.setLimitLocked(debit.Limit)
	local.state.Trim(&reduced, now)
	local.state.Coarsen(&reduced)
	g := reduced.Claim(&local.state, limiter.Claim{Now: now, Min: debit.Cost, Want: debit.Cost})
	if g.Retry == limiter.Never {
		g.Retry = debit.Limit.Window() // more than the share, but not more than the limit
	}
	return g
}

// share is the part of each limit that memory admits without the store.
type share struct {
	percent  int
	presence storage.Presence
	probe    time.Duration // until the store is tried again
}

func (e *Engine) share() share {
	s := share{percent: e.opts.now().DegradedPercent, probe: e.committer.outage.untilProbe()}
	if p := e.committer.conn.presence.Load(); p != nil {
		s.presence = *p
	}
	return s
}

// InForce returns the capacity of a limit at present: less than its own while memory decides without the store.
func (e *Engine) InForce(limit *Limit) int64 {
	if !e.Degraded() {
		return limit.Capacity()
	}
	part := e.share().of(limit)
	return part.Capacity()
}

// of returns the part of a limit. A process that knows no others rounds its percentage up.
func (s share) of(limit *Limit) limiter.Limit {
	if s.presence.Processes > 1 {
		return limit.Share(s.percent, s.presence.Process, s.presence.Processes)
	}
	return limit.Scale(s.percent)
}
