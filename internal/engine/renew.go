package engine // leases

import (
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// On a store on a network, a lease is renewed before it is used up, and before the end of the slot
// in which it can be spent, while requests go on to spend it. So a key in constant use waits for
// the store only at first. The renewed lease of a sliding limit is spread over the slots in which
// the key is expected to spend it.

const (
	// enough is how many more round trips a lease should last when it is renewed: one for the call
	// under way, one for its own call, and two spare ones for a key that speeds up.
	enough = 4
	// rarely is in how many round trips a slow key has no request.
	rarely = 64
	// lasts is how long a renewed lease should last, at the key's rate.
	lasts = time.Second
	// leastSpent is how many units a key must have spent of a lease for its rate to be known, and
	// how many it must be expected to spend of the next lease.
	leastSpent = 4
	// steadySpent is leastSpent for a lease that is spread.
	steadySpent = 2
	// edgeSpent is how many units a key must spend of a lease for it to be renewed before it ends.
	// Slower keys may not send another request before.
	edgeSpent = 16
	// leastLeft is how many units must be free, beside all known usage, for a lease to be renewed.
	// The last ones are for waiting requests (decision 67).
	leastLeft = 16
	// maxRenewal is the most units that are claimed for later.
	maxRenewal = 1 << 20
)

// renewal is the way a lease is renewed.
type renewal struct {
	low   int64 // renew below this number of units
	extra int64 // the number of units to add; 0 means no renewal
	ahead int64 // over how many slots after this one to spread them
	gives bool  // give the lease back with the claim: no request is expected before the answer
}

// renewLocked claims units for the next requests of keys whose leases are almost used up, after a
// request has spent some. No request waits for these claims.
func (r *request) renewLocked(e *Engine) {
	trip := e.committer.conn.roundTrip()
	if trip == 0 {
		return
	}
	processes := e.committer.conn.processes()
	for i := range r.held {
		c, debit := r.held[i].cell, &r.debits[r.held[i].debit]
		if c.rare().inFlight > 0 || c.rare().local != nil {
			continue
		}
		u := c.useLocked(debit, r.now)
		u.trip, u.processes = trip, processes
		if re := u.renewal(); re.extra > 0 {
			e.committer.queue.join(func(b *batch) { b.renewLocked(c, debit, re, r.now) })
		}
	}
}

// use is the use of a lease by its key.
type use struct {
	limit    *Limit
	lease    limiter.Lease
	headroom headroom
	began    int64 // when the lease was granted
	counting Counting
	now      int64

	trip      int64 // nanoseconds of a call
	processes int64 // that use the store
}

func (c cell) useLocked(d *Debit, now int64) use {
	return use{limit: d.Limit, lease: c.leaseLocked(), headroom: c.headroom, began: c.beganLocked(d.Limit, now),
		counting: d.Counting, now: now, processes: 1}
}

// renewal returns how to renew the lease.
func (u *use) renewal() (re renewal) {
	edge := false
	if u.limit.CountsSlots() {
		re, edge = u.ofSlots()
	} else if u.processes > 1 {
		re, edge = u.ofSharedBucket()
	} else {
		re = u.ofBucket()
	}
	if u.lease.Worth(&u.limit.Rate, u.now) > re.low && !edge || u.lease.Left(&u.limit.Rate) < leastLeft {
		return renewal{}
	}
	held, lent := u.limit.most()
	if re.extra = min(re.extra, maxRenewal, lent, held-u.lease.Units-1); re.extra < leastSpent {
		return renewal{}
	}
	return re
}

// ofSlots returns how to renew a lease of a sliding or fixed limit. edge reports that it must be
// renewed now because it is about to end.
func (u *use) ofSlots() (re renewal, edge bool) {
	pace, ends := u.pace(), u.limit.Ends(u.lease.At)
	life, least := ends-u.began, int64(leastSpent)
	if u.limit.Algorithm() == limiter.Sliding && u.counting == Always {
		if re = u.spread(pace); re.extra > 0 {
			edge = ends-u.now <= min(max(enough*u.trip, enough*pace.nanos/max(pace.units, 1)), life/edgeShare)
			if edge = edge && (pace.units >= edgeSpent || re.ahead > 1); edge || u.lease.At > u.limit.Slot(u.now) {
				re.ahead = max(re.ahead, 1)
			}
		}
	}
	re.low = pace.in(enough * u.trip)
	if re.ahead > 0 {
		least, re.gives = steadySpent, pace.in(rarely*u.trip) == 0
	} else {
		re.extra = max(pace.in(min(int64(lasts), life)), int64(u.headroom.units))
		re.low = max(re.low, re.extra/8)
	}
	if u.lease.Spent < least || re.extra < leastSpent {
		return renewal{}, false
	}
	return re, edge
}

// pace returns the rate at which a lease of a sliding or fixed limit is spent.
func (u *use) pace() rate {
	spent := u.lease.Spent
	if u.lease.Span == 0 && spent > 1 {
		spent-- // a request that waited for the lease has spent it at once
	}
	return rate{spent, max(u.now-u.began, (u.limit.Ends(u.lease.At)-u.began)/64, 1)}
}

// beganLocked returns when the lease of a sliding or fixed limit was granted, to a 256th of its slot.
func (c cell) beganLocked(limit *Limit, now int64) int64 {
	if !limit.CountsSlots() {
		return 0
	}
	slots := c.slotsLocked()
	slot := min(c.lease.at-int64(slots.ahead), limit.Slot(now))
	begins := limit.Ends(slot - 1)
	return begins + (limit.Ends(slot)-begins)/256*int64(slots.phase)
}

// beginLocked notes when the lease of a sliding or fixed limit was granted.
func (c cell) beginLocked(limit *Limit, now int64) {
	slots, slot := c.slotsLocked(), limit.Slot(now)
	begins := limit.Ends(slot - 1)
	slots.ahead = uint8(min(max(c.lease.at-slot, 0), 255))
	slots.phase = uint8(min((now-begins)/max((limit.Ends(slot)-begins)/256, 1), 255))
}

// spread returns how to renew a lease of a sliding limit by one that is spread over the slots in
// which the key is expected to spend it. A key whose pace isn't known, because it was first used in
// this slot or the one before, gets none.
//
// The units in use in a whole window at the key's pace are estimated from those since its first request,
// without the leases of other processes, and from the pace here. Where little stays free, leases are
// small: units that are spent early, or not at all, count for other slots than they are spent in.
func (u *use) spread(pace rate) (re renewal) {
	slots, slot := u.limit.Slots(), u.limit.Slot(u.now)
	most, passed := min(slots/spreadShare, u.limit.MaxAhead()), min(slot-u.headroom.firstSlot(slot)-1, slots)
	if most == 0 || passed <= 0 || u.lease.At == 0 {
		return re
	}
	used := (u.lease.Used - u.lease.Units*u.processes) * slots / min(passed+u.lease.Span/2, slots)
	if pace.units >= edgeSpent {
		used = max(used, pace.in(int64(u.limit.Window()))*u.processes)
	}
	free := max((u.limit.Amount()-used)*slots/u.limit.Amount(), 0)

	width := u.limit.Ends(slot) - u.limit.Ends(slot-1)
	need := min(spreadUnits/max(pace.in(width), 1)+1, most)
	expected := max(pace.in(need*width), 1)
	stays := (u.limit.Amount() - used - used/unsure) / u.processes
	_, lent := u.limit.most()
	re.extra = min(expected, lent, u.lease.Left(&u.limit.Rate)/limiter.Claim{Processes: u.processes}.ExtraShare(),
		max(2*stays, leastSpent))
	need = need * re.extra / expected
	re.ahead = min(max(need-1, 0)+min(free, need/2+1), most)
	return re
}

const (
	// spreadUnits is how many units a lease of a key in steady use should have.
	spreadUnits = 48
	// spreadShare bounds how long the units of a key that stops are missing elsewhere: it is a part
	// of the window.
	spreadShare = 4
	// unsure: the units in use at the key's pace may be 1/unsure more than estimated.
	unsure = 16
)

// edgeShare: in the last 1/edgeShare of its time a lease may be renewed before it is used up.
const edgeShare = 2

// ofBucket returns how to renew a lease of a token bucket. Its spent units don't show the rate,
// because a lease drains. So the rate is assumed to be the refill rate, the highest sustained one.
func (u *use) ofBucket() renewal {
	if int64(u.headroom.units) <= firstHeadroomOf(u.limit) {
		return renewal{} // no lease was used up yet
	}
	refill := refillOf(u.limit)
	extra := refill.in(int64(lasts))
	return renewal{low: max(refill.in(enough*u.trip), extra/4), extra: extra}
}

// ofSharedBucket returns how to renew a lease of a token bucket used by several machines. edge
// reports that it must be renewed now because it begins to drain. It drains at the whole rate of
// the bucket, of which this machine may have a small part. So it must be spent before that
// ([limiter.Claim.Lasts]).
func (u *use) ofSharedBucket() (re renewal, edge bool) {
	lasts := u.limit.MaxLasts()
	pace := rate{u.lease.Spent, max(u.now-(u.lease.At-lasts), lasts/16, 1)}
	use := min(pace.in(lasts), refillOf(u.limit).in(lasts))
	if u.lease.Spent < leastSpent || use < leastSpent {
		return renewal{}, false
	}
	re.extra = use + use/spareUse
	re.low = max(pace.in(max(enough*u.trip, lasts/lowShare)), 1)
	drains := u.lease.At + int64(u.limit.Refill(u.lease.Spent)) // the spent units drain first
	return re, drains-u.now <= max(enough*u.trip, pace.nanos/pace.units)
}

const (
	// spareUse sets the reserve in a lease of a token bucket: 1/spareUse of the machine's expected
	// usage.
	spareUse = 8
	// lowShare sets when such a lease is renewed: when its units suffice for 1/lowShare of its time.
	// Units left when the next lease arrives drain.
	lowShare = 64
)

// rate is a number of units per time.
type rate struct{ units, nanos int64 }

// refillOf returns the rate of a token bucket.
func refillOf(limit *Limit) rate { return rate{limit.Amount(), int64(limit.Window())} }

// in returns how many units the rate makes in a time, at most maxRenewal.
func (r rate) in(d int64) int64 {
	return int64(min(float64(r.units)*float64(d)/float64(r.nanos), maxRenewal))
}

// renewLocked adds a claim for later use to the open batch. Unless re.gives, the cell keeps its lease,
// to be spent meanwhile. If the batch has enough renewals, the key's next request tries again. The
// cell must be locked.
func (b *batch) renewLocked(c cell, d *Debit, re renewal, now int64) {
	if b.renewals == maxRenewals {
		return
	}
	b.renewals++
	e := &entry{
		cell: c, limit: d.Limit, batch: b,
		cost: 1, wanted: 1, extra: re.extra, ahead: re.ahead, renews: true,
		client: d.client(), parent: d.parent(), scaling: d.Scaling, beside: d.Foreign,
	}
	if lease := c.leaseLocked(); re.gives || lease.Worth(&d.Limit.Rate, now) == 0 {
		b.giveWithLocked(e, now) // moves its spent units to the slot of now
	} else if last := b.entryOf(c); last != nil {
		e.given = last.given
	}
	c.changeRareLocked(func(r *busy) {
		r.open = e
		r.inFlight++
	})
	b.entries = append(b.entries, e)
}

// notRenewedLocked notes the store's state of a key without free units for later use. Its lease
// stays unchanged.
func (e *entry) notRenewedLocked() {
	c := e.cell
	if !e.limit.CountsSlots() || c.lease.at == e.grant.At && c.slotsLocked().span == 0 {
		c.joinLocked(e.limit, e.grant.Lease)
	}
}
