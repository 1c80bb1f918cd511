package limiter

import "time"

// Lease is units of one key that were charged to the store for this process and
// are not spent yet, with what was known of the key when they were charged. The
// zero value is no lease.
//
// Invariants: 0 ≤ Units ≤ Used. What is spent from leases plus what they are
// still worth never exceeds what the state remembers of their charge, for any
// number of leases of one key: a lease on a sliding or fixed limit is worth
// something only in the slot it was charged to, and a lease on a token bucket
// only as far as the units charged by then have not drained.
type Lease struct {
	Units int64 // charged and not spent
	At    int64 // the slot of a sliding or fixed limit; the time of a token bucket
	Used  int64 // units in use by everyone at At, Units among them
	Part  int64 // token bucket: and this many parts of a unit, each 1/window
}

// Worth returns how many units of a lease can be spent at now: at most what it
// holds, and at most what l leaves beside the units used outside the lease.
func (l Limit) Worth(ls Lease, now int64) int64 {
	if ls.Units <= 0 {
		return 0
	}
	if l.algorithm == TokenBucket {
		ls = l.drainLease(ls, now)
	} else if ls.At < l.Slot(now) {
		return 0
	}
	return max(min(ls.Units, l.capacity-ls.outside()), 0)
}

// outside returns the units in use outside the lease, a part counted whole.
func (ls Lease) outside() int64 {
	outside := ls.Used - ls.Units
	if ls.Part > 0 {
		outside++
	}
	return outside
}

// Spend takes cost units from a lease if it is worth that many at now, and
// tells whether it did. A cost of zero is always spent.
func (l Limit) Spend(ls *Lease, now, cost int64) bool {
	if cost <= 0 {
		return true
	}
	if l.Worth(*ls, now) < cost {
		return false
	}
	if l.algorithm == TokenBucket {
		*ls = l.drainLease(*ls, now)
	}
	ls.Units -= cost
	return true
}

// Join adds what a grant brought to the lease a key already has, and returns
// what can't be held any more and is to be given back.
func (l Limit) Join(ls *Lease, granted Lease) (back Lease) {
	switch {
	case ls.Units <= 0:
		*ls = granted
	case l.algorithm == TokenBucket:
		old, young := *ls, granted
		if old.At > young.At {
			old, young = young, old
		}
		held := l.drainLease(old, young.At).Units
		young.Units += min(held, young.Used-young.Units)
		*ls = young
	case ls.At == granted.At:
		granted.Units += ls.Units
		granted.Used = max(granted.Used, ls.Used)
		*ls = granted
	case ls.At < granted.At:
		back, *ls = *ls, granted
	default:
		back = granted
	}
	return back
}

// drainLease returns what a token-bucket lease has become at now. The units
// spent outside it drain first; when they are gone the lease itself drains,
// because the bucket would otherwise refill units that are held as well.
func (l Limit) drainLease(ls Lease, now int64) Lease {
	if now <= ls.At {
		return ls
	}
	all := l.drainTo(Bucket{At: ls.At, Units: ls.Used, Part: ls.Part}, now)
	out := l.drainTo(Bucket{At: ls.At, Units: ls.Used - ls.Units, Part: ls.Part}, now)
	if out.Units > 0 || out.Part > 0 {
		return Lease{Units: ls.Units, At: now, Used: all.Units, Part: all.Part}
	}
	return Lease{Units: all.Units, At: now, Used: all.Units}
}

// worthBucket returns the units of a token-bucket lease that can still be given
// back at time at. Unlike [Limit.Worth] it does not depend on the amount.
func (l Limit) worthBucket(ls Lease, at int64) int64 {
	if ls.Units <= 0 {
		return 0
	}
	return l.drainLease(ls, at).Units
}

// Quota tells what is left for a key: how many units it can still spend, and in
// how long it has its whole amount back if it spends none of them.
type Quota struct {
	Remaining int64
	Reset     time.Duration
}

// Quota returns what is left of l for the key that holds the lease, as far as
// the lease knows it.
func (l Limit) Quota(ls Lease, now int64) Quota {
	if l.algorithm == TokenBucket {
		ls = l.drainLease(ls, now)
		outside := ls.outside()
		q := Quota{Remaining: max(l.capacity-outside, 0)}
		if outside > 0 {
			q.Reset = time.Duration(addSaturating(l.refillTime(ls.Used-ls.Units, ls.Part), max(ls.At-now, 0)))
		}
		return q
	}
	if l.Expiry(ls.At) <= now || ls.Used <= ls.Units {
		return Quota{Remaining: l.amount}
	}
	return Quota{
		Remaining: max(l.amount-(ls.Used-ls.Units), 0),
		Reset:     time.Duration(l.Expiry(ls.At) - now),
	}
}
