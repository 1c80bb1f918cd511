package engine

import (
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// On a store on a network, a lease is renewed before it is used up, and before the end of the slot
// in which it can be spent, while requests go on to spend it. So a key in constant use waits for
// the store only at first. A lease of a sliding limit is charged some slots ahead, while much of the
// limit is free, so that it lasts for these slots.

const (
	// enough is how many more round trips a lease should last when it is renewed: one for the call
	// under way, one for its own call, and two spare ones for a key that speeds up.
	enough = 4
	// lasts is how long a renewed lease should last, at the key's rate.
	lasts = time.Second
	// leastSpent is how many units a key must have spent of a lease for its rate to be known, and
	// how many it must be expected to spend of the next lease.
	leastSpent = 4
	// steadySpent is leastSpent for a lease that is charged ahead.
	steadySpent = 2
	// edgeSpent is how many units a key must spend of a lease for it to be renewed before it ends.
	// Slower keys may not send another request before.
	edgeSpent = 16
	// leastLeft is how many units must be free, beside all known usage, for a lease to be renewed.
	// The last ones are for waiting requests.
	leastLeft = 16
	// maxRenewal is the most units that are claimed for later.
	maxRenewal = 1 << 20
)

// renewal is the way a lease is renewed.
type renewal struct {
	low   int64 // renew below this number of units
	extra int64 // the number of units to add; 0 means no renewal
	ahead int64 // the number of slots to charge ahead
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
		if c.rare().claims() > 0 || c.rare().admitted() != nil {
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
	granted  int64 // slots ahead
	counting Counting
	now      int64

	trip      int64 // nanoseconds of a call
	processes int64 // that use the store
}

func (c cell) useLocked(d *Debit, now int64) use {
	return use{limit: d.Limit, lease: c.leaseLocked(), headroom: c.headroom, granted: int64(c.ahead), counting: d.Counting, now: now, processes: 1}
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
	if u.lease.Units > re.low && !edge || u.lease.Left(&u.limit.Limit) < leastLeft {
		return renewal{}
	}
	re.extra = min(re.extra, maxRenewal)
	return re
}

// ofSlots returns how to renew a lease of a sliding or fixed limit. edge reports that it must be
// renewed now because it is about to end.
func (u *use) ofSlots() (re renewal, edge bool) {
	pace, ends := u.pace(), u.limit.Ends(u.lease.At)
	life, least := ends-u.began(), int64(leastSpent)
	re.low = pace.in(enough * u.trip)
	if u.limit.Algorithm() == limiter.Sliding && u.counting == Always {
		re.ahead = u.steady()
		edge = ends-u.now <= min(max(enough*u.trip, enough*pace.nanos/max(pace.units, 1)), life/edgeShare)
		if edge = edge && (pace.units >= edgeSpent || re.ahead > 1); edge || u.lease.At > u.limit.Slot(u.now) {
			re.ahead = max(re.ahead, 1)
		}
	}
	if re.ahead > 0 {
		expected := pace.in(u.limit.Ends(u.limit.Slot(u.now)+re.ahead) - u.now)
		re.extra, least = expected+expected/spareShare, steadySpent
	} else {
		re.extra = max(pace.in(min(int64(lasts), life)), int64(u.headroom.units))
		re.low = max(re.low, re.extra/8)
	}
	if pace.units < least || re.extra < leastSpent {
		return renewal{}, false
	}
	return re, edge
}

// began returns the beginning of the slot in which a lease of a sliding or fixed limit was granted.
func (u *use) began() int64 { return u.limit.Ends(min(u.lease.At-u.granted, u.limit.Slot(u.now)) - 1) }

// pace returns the rate at which a lease of a sliding or fixed limit is spent.
func (u *use) pace() rate {
	began := u.began()
	return rate{u.lease.Spent, max(u.now-began, (u.limit.Ends(u.lease.At)-began)/64, 1)}
}

// steady returns the number of slots that a lease of a key in steady use may be charged ahead: of the
// window's slots at most the part that stays free of the amount if everybody goes on at the pace since the
// key's first request, or if all processes spend as fast as this one. So units that are forgotten late by
// these slots don't make a key be refused that keeps its pace. It is 0 for a limit without slots ahead and
// a key that was first used just now.
func (u *use) steady() int64 {
	most := min(u.limit.Slots()/steadyShare, u.limit.MaxAhead())
	if most == 0 || u.lease.At == 0 {
		return 0
	}
	slots, slot := u.limit.Slots(), u.limit.Slot(u.now)
	passed := min(slot-u.headroom.firstSlot(slot)-1, slots) // as a whole
	if passed <= 0 {
		return 0
	}
	used := u.lease.Used * slots / passed
	if pace := u.pace(); pace.units >= edgeSpent {
		used = max(used, pace.in(int64(u.limit.Window()))*u.processes)
	}
	return max(min(most, (u.limit.Amount()-used)*slots/u.limit.Amount()), 0)
}

// steadyShare: a lease of a key in steady use is charged at most 1/steadyShare of a window's slots ahead.
// A key that speeds up, against what its leases were granted for, loses about half of that part of its
// limit, once.
const steadyShare = 20

// spareShare: 1/spareShare of the expected use is claimed on top of it, so that the lease lasts until
// its slot ends.
const spareShare = 4

// edgeShare: in the last 1/edgeShare of its time a lease may be renewed before it is used up.
const edgeShare = 4

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

// renewLocked adds a claim for later use to the open batch. The cell keeps its lease, to be spent
// meanwhile. If the batch has enough renewals, the key's next request tries again. The cell must be
// locked.
func (b *batch) renewLocked(c cell, d *Debit, re renewal, now int64) {
	if b.renewals == maxRenewals {
		return
	}
	b.renewals++
	if re.ahead > 0 {
		c.headroom.units = uint16(min(re.extra, maxHeadroom))
	}
	e := &entry{
		cell: c, limit: d.Limit, batch: b,
		cost: 1, wanted: 1, extra: re.extra, ahead: re.ahead, next: re.ahead > 0, renews: true,
		client: d.client(), parent: d.parent(), scaling: d.Scaling, beside: d.Elsewhere,
	}
	if c.lease.units == 0 {
		b.giveWithLocked(e, now) // moves its spent units to the slot of now
	} else if last := b.entryOf(c); last != nil {
		e.given = last.given
	}
	c.changeRareLocked(func(r *rare) {
		r.open = e
		r.inFlight++
	})
	b.entries = append(b.entries, e)
}

// notRenewedLocked notes the store's state of a key without free units for later use. Its lease
// stays unchanged.
func (en *entry) notRenewedLocked() {
	c := en.cell
	if !en.limit.CountsSlots() || c.lease.at == en.grant.At {
		c.joinLocked(en.limit, en.grant.Lease)
	}
}
