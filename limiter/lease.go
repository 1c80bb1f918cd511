package limiter

import "time"

// Lease is units of one key that were charged to the store for this process and are not spent yet,
// with the key's known usage at the time of the charge. The zero value is no lease.
//
// A remaining part of a unit in a token bucket's lease can't be spent; it stays charged, and is
// given back with the lease.
//
// Invariants: 0 ≤ Units ≤ Used, and Units + Spent ≤ Used, including parts. For any number of
// holders of one key, the units spent from leases plus the worth of these leases never exceed the
// part of their charges that the state remembers. A unit of a sliding or fixed limit can be spent
// until the end of the slot it was charged to. A lease on a token bucket drains after the units
// spent by its own holder, and is worth the undrained rest. It doesn't drain after the units of
// other holders, because these may give them back.
type Lease struct {
	Units int64 // charged and not spent
	At    int64 // the last slot of a sliding or fixed limit; the time of a token bucket
	Used  int64 // units in use by all holders at At, including Units

	// Spent is the part of Used that this holder has spent: of a token bucket the undrained units,
	// of other limits the units of this lease.
	Spent int64

	// Span is for sliding limits: Units and Spent are charged evenly to At and this many slots before
	// it. They are spent in the order of their slots, each in its slot or earlier.
	Span int64
	// Lapsed is the part of Units that is of slots before the last units were spent, and can't be
	// spent any more. Units that have lapsed since are not counted.
	Lapsed int64

	// The following fields are for token buckets. A part is 1/window of a unit.
	Part      int64 // in use beside Used
	HeldPart  int64 // charged and not spent beside Units
	SpentPart int64 // spent beside Spent
}

// Holds reports whether a lease has units or parts that can be given back.
func (ls Lease) Holds() bool { return ls.Units > 0 || ls.HeldPart > 0 }

// Worth returns how many units of a lease can be spent at now: at most its own units, and at most
// the units that l leaves beside the units in use outside the lease. Arguments are pointers to
// limits because copying one takes as long as the arithmetic.
func (ls *Lease) Worth(l *Limit, now int64) int64 {
	units := ls.Units
	switch {
	case units <= 0:
		return 0
	case l.algorithm == TokenBucket:
		drained := ls.drained(l, now)
		return drained.within(l, drained.Units)
	case l.Ends(ls.At) <= now:
		return 0
	case ls.Span > 0:
		units -= ls.lapsed(l, now)
	}
	return ls.within(l, units)
}

// within returns how many of the units l leaves beside the units in use outside the lease.
func (ls *Lease) within(l *Limit, units int64) int64 {
	return max(min(units, l.capacity-whole(ls.outside(l))), 0)
}

// before returns how many units of a lease on a sliding or fixed limit, spent ones included, are
// charged to slots before the given one.
func (ls *Lease) before(slot int64) int64 {
	slots := min(max(slot-(ls.At-ls.Span), 0), ls.Span+1)
	return (max(ls.Units, 0) + ls.Spent) * slots / (ls.Span + 1)
}

// lapsed returns how many unspent units are of slots that have ended at now.
func (ls *Lease) lapsed(l *Limit, now int64) int64 {
	return max(ls.Lapsed, ls.before(l.Slot(now))-ls.Spent)
}

// spentIn returns how many of the spent units stay charged to a slot when the lease is given back:
// of its units, in the order of their slots, those that follow the lapsed ones. None was spent in a
// later slot than it stays charged to.
func (ls *Lease) spentIn(slot int64) int64 {
	return max(min(ls.before(slot+1), ls.Lapsed+ls.Spent)-max(ls.before(slot), ls.Lapsed), 0)
}

// outside returns the units in use outside the lease.
func (ls *Lease) outside(l *Limit) (units, part int64) {
	return l.less(ls.Used, ls.Part, ls.Units, ls.HeldPart)
}

// Spend takes cost units from a lease if it is worth that many at now, and
// reports whether it did. A cost of zero is always spent.
func (ls *Lease) Spend(l *Limit, now, cost int64) bool {
	if cost <= 0 {
		return true
	}
	if ls.Worth(l, now) < cost {
		return false
	}
	ls.SpendWorth(l, now, cost)
	return true
}

// SpendWorth takes cost units from a lease that is worth at least as many at now. Callers check
// that with [Lease.Worth].
func (ls *Lease) SpendWorth(l *Limit, now, cost int64) {
	if l.algorithm == TokenBucket {
		*ls = ls.drained(l, now)
	} else if ls.Span > 0 {
		ls.Lapsed = ls.lapsed(l, now)
	}
	ls.Units -= cost
	ls.Spent += cost
}

// Take takes the units out of a lease, for giving them back. The known usage of the key stays.
func (ls *Lease) Take(l *Limit) (taken Lease) {
	taken = *ls
	ls.Used, ls.Part = taken.outside(l)
	ls.Units, ls.HeldPart = 0, 0
	if l.algorithm != TokenBucket {
		ls.Spent, ls.Span, ls.Lapsed = 0, 0, 0 // they go with the taken lease, see Claim.Return
	}
	return taken
}

// isAhead reports whether the last slot of a lease on a sliding or fixed limit begins only after
// now.
func (ls Lease) isAhead(l *Limit, now int64) bool { return l.Ends(ls.At-1) > now }

// Slow reports whether a key of a sliding limit is known to stay within a quarter of the limit's
// rate: the units in use outside a lease are compared with the number of complete slots since met,
// the slot of the holder's first request.
func (ls Lease) Slow(l *Limit, met, now int64) bool {
	slots := int64(l.slots)
	passed := min(l.Slot(now)-met-1, slots)
	return (ls.Used-ls.Units)*slowShare*slots <= l.amount*passed
}

// Join adds a granted lease to the lease of its holder, and returns what doesn't fit in and is to be
// given back, which may be nothing. It also restores a lease that was taken out for giving back and
// was not given back. A lease with a span can't be added to another: it replaces that.
func (ls *Lease) Join(l *Limit, granted Lease) (back Lease) {
	switch {
	case l.algorithm == TokenBucket:
		ls.joinBucket(l, granted)
	case ls.At == granted.At && ls.Span == 0 && granted.Span == 0:
		granted.Units += max(ls.Units, 0)
		granted.Spent += ls.Spent
		granted.Used = max(granted.Used, ls.Used)
		*ls = granted
	case ls.Units <= 0 || ls.At <= granted.At || granted.Span > 0:
		if back = *ls; back.At == granted.At {
			granted.Used = max(granted.Used, back.Used)
		}
		*ls = granted
	default:
		back = granted
	}
	return back
}

// Rewind moves a lease that its holder has drained to a later time back to now, because the
// holder's time was ahead. At now it held at least as many units.
func (ls *Lease) Rewind(l *Limit, now int64) {
	if l.algorithm == TokenBucket {
		ls.At = min(ls.At, now)
	}
}

// joinBucket is [Lease.Join] for a token bucket. It gives nothing back: units that the older lease
// loses on the way to the younger lease's time have drained. Spent units are not added up, because
// a grant and a lease that was taken out count the same ones.
func (ls *Lease) joinBucket(l *Limit, granted Lease) {
	if *ls == (Lease{}) {
		*ls = granted
		return
	}
	old, young := *ls, granted
	if old.At < young.At {
		old = old.drained(l, young.At)
	} else {
		old, young = young.drained(l, old.At), old
		if old.Used > young.Used || (old.Used == young.Used && old.Part > young.Part) {
			young.Used, young.Part = old.Used, old.Part
		}
	}
	outside, outsidePart := young.outside(l)
	units, part := lesser(old.Units, old.HeldPart, outside, outsidePart)
	young.Units, young.HeldPart = l.plus(young.Units, young.HeldPart, units, part)
	young.remember(l, young.Spent, young.SpentPart)
	young.remember(l, old.Spent, old.SpentPart)
	*ls = young
}

// remember sets the spent units and part, if they are more than before, and at most to the units in
// use outside the lease.
func (ls *Lease) remember(l *Limit, units, part int64) {
	if units < ls.Spent || (units == ls.Spent && part < ls.SpentPart) {
		return
	}
	outside, outsidePart := ls.outside(l)
	ls.Spent, ls.SpentPart = lesser(units, part, outside, outsidePart)
}

// drained returns a token-bucket lease at time now. The units spent by its holder drain first.
// After them the lease itself drains, because otherwise the bucket would refill units that are also
// held. Units of other holders make no difference: they may be given back.
func (ls *Lease) drained(l *Limit, now int64) Lease {
	if now <= ls.At {
		return *ls
	}
	units, part := l.refilled(now - ls.At)
	drained := Lease{At: now}
	drained.Used, drained.Part = l.less(ls.Used, ls.Part, units, part)
	drained.Spent, drained.SpentPart = l.less(ls.Spent, ls.SpentPart, units, part)
	units, part = l.less(units, part, ls.Spent, ls.SpentPart)
	drained.Units, drained.HeldPart = l.less(ls.Units, ls.HeldPart, units, part)
	return drained
}

// SpentAt returns the time at which units spent from a lease at now count. A token bucket may be
// ahead of now, if a process with a faster clock charged it first.
func (ls Lease) SpentAt(l *Limit, now int64) int64 {
	if l.algorithm == TokenBucket {
		return ls.At
	}
	return now
}

// bucketSlots is the number of slots that [Limit.InSlot] assumes for a token bucket's window.
const bucketSlots = 60

// InSlot reports whether now lies in the slot that a lease was charged to at. A token bucket has no
// slots: InSlot takes the following 60th of its window as one.
func (l Limit) InSlot(at, now int64) bool {
	if l.algorithm == TokenBucket {
		return now-at < l.window/bucketSlots
	}
	return at >= l.Slot(now)
}

// Quota is the rest of a limit for a key: how many units it can still spend, and how long it takes
// to recover the whole amount if it spends none of them.
//
// It is exact for a key with one holder that spends its claims, with three exceptions. A lease does
// not know the slots of a sliding limit in which the used units were charged, and assumes its own
// slot for all. So Remaining may be too low and Reset too long, by at most a window and a slot. A
// lease on a token bucket that lasts, see [Claim.Lasts], knows the usage at the end of that time. So
// Remaining may be too high by the units that drain until then, and Reset too long by that time. Reset
// takes units of slots to come that are spent already for units of this slot, to which they move when
// the lease is given back; if the key doesn't claim until then, it is too short by these slots.
type Quota struct {
	Remaining int64
	Reset     time.Duration
}

// Quota returns the rest of l for the key that holds the lease, as far as the lease knows it.
func (ls *Lease) Quota(l *Limit, now int64) Quota {
	if l.algorithm == TokenBucket {
		return ls.quotaOfBucket(l, now)
	}
	if l.Expiry(ls.At) <= now || ls.Used <= ls.Units {
		return Quota{Remaining: l.amount}
	}
	last := ls.At
	if ls.isAhead(l, now) { // spent units are moved to the slot of now, see Claim.Return
		last = l.Slot(now)
	}
	return Quota{
		Remaining: max(l.amount-(ls.Used-ls.Units), 0),
		Reset:     time.Duration(max(l.Expiry(last)-now, 0)),
	}
}

// quotaOfBucket is Quota for a token bucket.
func (ls *Lease) quotaOfBucket(l *Limit, now int64) Quota {
	drained := ls.drained(l, now)
	outside, part := drained.outside(l)
	q := Quota{Remaining: max(l.capacity-whole(outside, part), 0)}
	if outside > 0 || part > 0 || drained.At > now && *ls != (Lease{}) {
		q.Reset = time.Duration(addSaturating(l.refillTime(outside, part), max(drained.At-now, 0)))
	}
	return q
}

// NextUnit returns how long it takes until a unit is free again, for a quota with no remaining
// units.
func (q Quota) NextUnit(l *Limit) time.Duration {
	if l.algorithm == TokenBucket {
		return q.Reset - l.Refill(l.capacity-1)
	}
	return q.Reset
}

// Settles returns how many units change if a lease is given back at now, counting a part of a unit
// as whole: unspent units, which become free, and spent units of a lease charged ahead, which are
// forgotten sooner.
func (ls Lease) Settles(l *Limit, now int64) int64 {
	if l.algorithm == TokenBucket {
		ls = ls.drained(l, now)
		return whole(ls.Units, ls.HeldPart)
	}
	if l.Expiry(ls.At) <= now {
		return 0
	}
	ahead := ls.Lapsed + ls.Spent - max(ls.before(l.Slot(now)+1), ls.Lapsed)
	return max(ls.Units, 0) + max(ahead, 0)
}

// InUse returns the known number of units in use by all holders, including the units of the lease.
// It counts a part of a unit as whole.
func (ls Lease) InUse() int64 { return whole(ls.Used, ls.Part) }

// InUseAt returns the known number of units in use by all holders at now. If the time of a token
// bucket's lease is later, units that drain until then are added.
func (ls Lease) InUseAt(l *Limit, now int64) int64 {
	if l.algorithm != TokenBucket {
		return ls.InUse()
	}
	return (Bucket{At: ls.At, Units: ls.Used, Part: ls.Part}).drained(l, now).inUseAt(l, now)
}

// Left returns how many units of l are free beside all units known to be in use, including held
// ones.
func (ls Lease) Left(l *Limit) int64 {
	return max(l.capacity-ls.InUse(), 0)
}
