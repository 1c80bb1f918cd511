package limiter

import "time"

// Lease is units of one key that were charged to the store for this process and
// are not spent yet, with what was known of the key when they were charged. The
// zero value is no lease.
//
// Part of a unit that is left of a token bucket's lease can't be spent; it stays
// charged, and is given back with the lease.
//
// Invariants: 0 ≤ Units ≤ Used, and Units + Spent ≤ Used, parts included. What
// is spent from leases plus what they are still worth never exceeds what the
// state remembers of their charge, for any number of holders of one key: a lease
// on a sliding or fixed limit is worth something only in the slot it was charged
// to, and a lease on a token bucket only as far as it has not drained, behind
// what its own holder spent. It does not stand behind what others have in use,
// who may give that back.
type Lease struct {
	Units int64 // charged and not spent
	At    int64 // the slot of a sliding or fixed limit; the time of a token bucket
	Used  int64 // units in use by everyone at At, Units among them

	// Spent is the units of Used that this holder has spent: of a token bucket
	// those that have not drained, of other limits those of this lease.
	Spent int64

	// These are of a token bucket. A part is 1/window of a unit.
	Part      int64 // in use beside Used
	HeldPart  int64 // charged and not spent beside Units
	SpentPart int64 // spent beside Spent
}

// Holds reports whether there is anything in a lease that can be given back.
func (ls Lease) Holds() bool { return ls.Units > 0 || ls.HeldPart > 0 }

// Worth returns how many units of a lease can be spent at now: at most what it
// holds, and at most what l leaves beside the units used outside the lease. Arguments are pointers
// to limits because copying one takes as long as the arithmetic.
func (ls *Lease) Worth(l *Limit, now int64) int64 {
	if ls.Units <= 0 {
		return 0
	}
	if l.algorithm == TokenBucket {
		drained := ls.drained(l, now)
		ls = &drained
	} else if l.Ends(ls.At) <= now {
		return 0
	}
	return max(min(ls.Units, l.capacity-whole(ls.outside(l))), 0)
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

// SpendWorth takes cost units from a lease that is worth at least as many at now, which the
// caller knows from [Lease.Worth].
func (ls *Lease) SpendWorth(l *Limit, now, cost int64) {
	if l.algorithm == TokenBucket {
		*ls = ls.drained(l, now)
	}
	ls.Units -= cost
	ls.Spent += cost
}

// Take takes out what a lease holds, for giving it back. What is known of the
// key stays.
func (ls *Lease) Take(l *Limit) (taken Lease) {
	taken = *ls
	ls.Used, ls.Part = taken.outside(l)
	ls.Units, ls.HeldPart = 0, 0
	if l.algorithm != TokenBucket {
		ls.Spent = 0 // it goes with what is taken, see Claim.Return
	}
	return taken
}

// isAhead reports whether a lease on a sliding or fixed limit is charged to a slot
// that begins only after now.
func (ls Lease) isAhead(l *Limit, now int64) bool { return l.Ends(ls.At-1) > now }

// Slow reports whether a key of a sliding limit is known to keep to a quarter of
// the limit's pace: with all that is in use outside a lease, by the slots that have
// passed as a whole since the one that the lease's holder met the key in.
func (ls Lease) Slow(l *Limit, met, now int64) bool {
	slots := int64(l.slots)
	passed := min(l.Slot(now)-met-1, slots)
	return (ls.Used-ls.Units)*aheadShare*slots <= l.amount*passed
}

// Join adds what a grant brought to the lease that its holder already has, and
// returns what can't be held any more and is to be given back. It also puts back
// a lease that was taken out for giving it back and is not.
func (ls *Lease) Join(l *Limit, granted Lease) (back Lease) {
	switch {
	case l.algorithm == TokenBucket:
		ls.joinBucket(l, granted)
	case ls.At == granted.At:
		granted.Units += max(ls.Units, 0)
		granted.Spent += ls.Spent
		granted.Used = max(granted.Used, ls.Used)
		*ls = granted
	case ls.Units <= 0:
		*ls = granted
	case ls.At < granted.At:
		back, *ls = *ls, granted
	default:
		back = granted
	}
	return back
}

// Rewind takes a lease that its holder has drained to a later time as what it is at
// now, where the holder's time was ahead. It held no less then.
func (ls *Lease) Rewind(l *Limit, now int64) {
	if l.algorithm == TokenBucket {
		ls.At = min(ls.At, now)
	}
}

// joinBucket is [Lease.Join] for a token bucket. There is nothing to give back:
// what the older lease lacks when it is brought to the younger's time has
// drained. What was spent is not added up, because a grant and a lease that was
// taken out know of the same.
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

// remember notes that units and part are spent, if that is more than was known,
// as far as it is in use.
func (ls *Lease) remember(l *Limit, units, part int64) {
	if units < ls.Spent || (units == ls.Spent && part < ls.SpentPart) {
		return
	}
	outside, outsidePart := ls.outside(l)
	ls.Spent, ls.SpentPart = lesser(units, part, outside, outsidePart)
}

// drained returns what a token-bucket lease has become at now. The units
// that its holder spent drain first; when they are gone the lease itself
// drains, because the bucket would otherwise refill units that are held as
// well. What others have in use makes no difference: they may give it back.
func (ls *Lease) drained(l *Limit, now int64) Lease {
	if now <= ls.At {
		return *ls
	}
	units, part := l.refilled(now - ls.At)
	is := Lease{At: now}
	is.Used, is.Part = l.less(ls.Used, ls.Part, units, part)
	is.Spent, is.SpentPart = l.less(ls.Spent, ls.SpentPart, units, part)
	units, part = l.less(units, part, ls.Spent, ls.SpentPart)
	is.Units, is.HeldPart = l.less(ls.Units, ls.HeldPart, units, part)
	return is
}

// SpentAt returns the time as of which units count that are spent from a lease at now. A
// token bucket may be ahead of now, if a process with a faster clock charged it first.
func (ls Lease) SpentAt(l *Limit, now int64) int64 {
	if l.algorithm == TokenBucket {
		return ls.At
	}
	return now
}

// bucketSlots is how many slots a token bucket's window is taken to have by
// [Limit.InSlot].
const bucketSlots = 60

// InSlot reports whether now lies in the slot that a lease was charged to at. A token
// bucket has no slots: a 60th of its window from then on is taken for one.
func (l Limit) InSlot(at, now int64) bool {
	if l.algorithm == TokenBucket {
		return now-at < l.window/bucketSlots
	}
	return at >= l.Slot(now)
}

// Quota describes the rest of a limit for a key: how many units it can still spend, and in
// how long it has its whole amount back if it spends none of them.
//
// It is exact for a key with one holder as long as that spends what it claims,
// but for one thing. A lease does not know in which slots of a sliding limit
// the units in use were charged: it takes all for charged in its own slot, so
// Remaining may be too low and Reset too long, by a window and a slot at most. A lease on a token
// bucket that lasts, see [Claim.Lasts], knows what is in use when that ends: Remaining may be too
// high by what drains until then, and Reset too long by that time.
type Quota struct {
	Remaining int64
	Reset     time.Duration
}

// Quota returns what is left of l for the key that holds the lease, as far as
// the lease knows it.
func (ls *Lease) Quota(l *Limit, now int64) Quota {
	if l.algorithm == TokenBucket {
		is := ls.drained(l, now)
		outside, part := is.outside(l)
		q := Quota{Remaining: max(l.capacity-whole(outside, part), 0)}
		if outside > 0 || part > 0 || is.At > now && *ls != (Lease{}) {
			q.Reset = time.Duration(addSaturating(l.refillTime(outside, part), max(is.At-now, 0)))
		}
		return q
	}
	if l.Expiry(ls.At) <= now || ls.Used <= ls.Units {
		return Quota{Remaining: l.amount}
	}
	last := ls.At
	if ls.isAhead(l, now) { // what is spent is moved to the slot of now, see Claim.Return
		last = l.Slot(now)
	}
	return Quota{
		Remaining: max(l.amount-(ls.Used-ls.Units), 0),
		Reset:     time.Duration(max(l.Expiry(last)-now, 0)),
	}
}

// NextUnit returns how long it takes until a unit is free again, for a quota of which
// nothing remains.
func (q Quota) NextUnit(l *Limit) time.Duration {
	if l.algorithm == TokenBucket {
		return q.Reset - l.Refill(l.capacity-1)
	}
	return q.Reset
}

// Settles returns how many units giving a lease back at now sets right, a part of
// a unit counted whole: those that it holds, which are free then, and those that
// were spent of one charged ahead, which are forgotten sooner then.
func (ls Lease) Settles(l *Limit, now int64) int64 {
	if l.algorithm == TokenBucket {
		ls = ls.drained(l, now)
		return whole(ls.Units, ls.HeldPart)
	}
	if l.Expiry(ls.At) <= now {
		return 0
	}
	settles := max(ls.Units, 0)
	if ls.Spent > 0 && ls.isAhead(l, now) {
		settles += ls.Spent
	}
	return settles
}

// InUse returns the units that a lease knows to be in use by everyone, those that
// it holds included, and a part of a unit counted whole.
func (ls Lease) InUse() int64 { return whole(ls.Used, ls.Part) }

// InUseAt returns the units that a lease knows to be in use by everyone at now. Before the time of a
// token bucket's lease that is what is in use then, and what drains until then.
func (ls Lease) InUseAt(l *Limit, now int64) int64 {
	if l.algorithm != TokenBucket {
		return ls.InUse()
	}
	return (Bucket{At: ls.At, Units: ls.Used, Part: ls.Part}).drained(l, now).inUseAt(l, now)
}

// Left returns how many units of l are free beside everything that a lease
// knows to be in use, held units included.
func (ls Lease) Left(l *Limit) int64 {
	return max(l.capacity-ls.InUse(), 0)
}
