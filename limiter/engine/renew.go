package engine

import (
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// On a store on a network, a lease is renewed before it is used up, and before the end of the slot
// in which it can be spent, while requests go on to spend it. So a key in constant use waits for
// the store only at first.

const (
	// enough is how many more round trips a lease should last when it is renewed: one for the call
	// under way, one for its own call, and two spare ones for a key that speeds up.
	enough = 4
	// lasts is how long a renewed lease should last, at the key's rate.
	lasts = time.Second
	// leastSpent is how many units a key must have spent of a lease for its rate to be known, and
	// how many it must be expected to spend of the next lease.
	leastSpent = 4
	// edgeSpent is how many units a key must spend in a slot for its lease to be renewed before the
	// slot ends. Slower keys may not send another request before.
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
	next  bool  // the units are for the slot after this one
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
		if c.rare.claims() > 0 || c.rare.admitted() != nil {
			continue
		}
		u := use{limit: debit.Limit, lease: c.leaseLocked(), headroom: int64(c.headroom.units), now: r.now, trip: trip}
		re := u.renewal(processes)
		if re.next && debit.Counting != Always {
			continue // the debit can't be spent from the next slot
		}
		if re.extra > 0 {
			e.committer.queue.join(func(b *batch) { b.renewLocked(c, debit, re) })
		}
	}
}

// use is the use of a lease by its key.
type use struct {
	limit    *Limit
	lease    limiter.Lease
	headroom int64 // in units
	now      int64
	trip     int64 // nanoseconds of a call
}

// renewal returns how to renew the lease, if so many processes use the store.
func (u *use) renewal(processes int64) (re renewal) {
	edge := false
	if u.limit.CountsSlots() {
		re, edge = u.ofSlots()
	} else if processes > 1 {
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
// renewed now because its slot is about to end.
func (u *use) ofSlots() (re renewal, edge bool) {
	slot, spent := u.limit.Slot(u.now), u.lease.Spent
	begins, ends := u.limit.Ends(slot-1), u.limit.Ends(slot)
	width := ends - begins
	passed := max(u.now-begins, width/64, 1)
	if re.next = u.lease.At > slot; re.next { // since the end of the last slot
		passed = width / edgeShare
	}
	pace := rate{spent, passed}
	use := pace.in(min(int64(lasts), width))
	if re.extra = max(use, u.headroom); spent < leastSpent || re.extra < leastSpent {
		return renewal{}, false
	}
	re.low = max(pace.in(enough*u.trip), re.extra/8)
	if u.limit.Algorithm() != limiter.Sliding || re.next || spent < edgeSpent {
		return re, false
	}
	if ends-u.now <= min(max(enough*u.trip, enough*passed/spent), width/edgeShare) {
		return renewal{low: re.low, extra: use + use/spareShare, next: true}, true
	}
	return re, false
}

// spareShare sets the reserve in a lease for the next slot: 1/spareShare of the slot's usage, so
// that the lease need not be renewed there.
const spareShare = 4

// edgeShare sets when a lease may be renewed for the next slot: in the last 1/edgeShare of a slot.
const edgeShare = 4

// ofBucket returns how to renew a lease of a token bucket. Its spent units don't show the rate,
// because a lease drains. So the rate is assumed to be the refill rate, the highest sustained one.
func (u *use) ofBucket() renewal {
	if u.headroom <= firstHeadroomOf(u.limit) {
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
func (b *batch) renewLocked(c *cell, d *Debit, re renewal) {
	if b.renewals == maxRenewals {
		return
	}
	b.renewals++
	if re.next {
		c.headroom.units = uint16(min(re.extra, maxHeadroom))
	}
	e := &entry{
		cell: c, limit: d.Limit, batch: b,
		cost: 1, wanted: 1, extra: re.extra, next: re.next, renews: true,
		client: d.client(), parent: d.parent(), scaling: d.Scaling, beside: d.Elsewhere,
	}
	if last := b.entryOf(c); last != nil {
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
