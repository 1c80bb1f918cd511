package limiter

import "slices"

// Debts are units of one key that were admitted without the store and are to be charged to it.
// [Claim.Charge] charges one. Methods may change the slice that they are given.
//
// Invariants: no two debts of a sliding or fixed limit are of slots that are together. A token
// bucket has at most one debt, of at most the units in use.
type Debts []Charge

// Add adds a charge to debts, as few as possible, and returns them. state is the state of the key
// in memory, including the charge. Debts of slots that no longer count at now are dropped. For a
// token bucket, all debts are one, and at most the units in use by the state: memory may drain it
// at a reduced rate, so the rest has drained at the full rate as well.
func (debts Debts) Add(l *Limit, more Charge, state *State, now int64) Debts {
	if !l.CountsSlots() {
		for _, debt := range debts {
			more.Units += debt.Units
		}
		more.Units = min(more.Units, state.Bucket.inUse())
		return append(debts[:0], more)
	}
	if last := len(debts) - 1; last >= 0 && l.Together(debts[last].At, more.At) {
		debts[last].At = max(debts[last].At, more.At)
		debts[last].Units += more.Units
		return debts
	}
	debts = slices.DeleteFunc(debts, func(debt Charge) bool { return !debt.Counts(l, now) })
	return append(debts, more)
}

// Forgive removes a charge from debts, as far as they have it in its slot, and returns the number
// of removed units.
func (debts Debts) Forgive(l *Limit, charge Charge) (forgiven int64) {
	for i := range debts {
		if !l.CountsSlots() || l.Together(debts[i].At, charge.At) {
			forgiven = min(charge.Units, debts[i].Units)
			debts[i].Units -= forgiven
			return forgiven
		}
	}
	return 0
}

// Settle spends granted units on debts, and returns the remaining debts. Units are never booked
// before the slot that they were spent in: for debts of later slots than the grant's, Settle moves
// as many granted units into back, to be given back, and the debts remain. A lease with a span can't
// be divided, and is given back as a whole.
func (debts Debts) Settle(l *Limit, granted *Lease, now int64) (rest Debts, back Lease) {
	if granted.Span > 0 && len(debts) > 0 {
		return debts, granted.Take(l)
	}
	back.At = granted.At
	for i := range debts {
		debt := &debts[i]
		settled := min(debt.Units, granted.Units)
		switch {
		case !l.CountsSlots():
			if settled = min(settled, granted.Worth(l, now)); granted.Spend(l, now, settled) {
				debt.Units -= settled
			}
		case debt.At > granted.At:
			granted.Units -= settled
			granted.Used -= settled
			back.Units += settled
			back.Used += settled
		default:
			granted.Units -= settled
			granted.Spent += settled
			debt.Units -= settled
		}
	}
	return slices.DeleteFunc(debts, func(debt Charge) bool { return debt.Units == 0 }), back
}

// Counts reports whether a charge may still count at now.
func (c Charge) Counts(l *Limit, now int64) bool {
	return !l.CountsSlots() || c.At >= l.Oldest(now)
}

// NotLater returns a charge with a slot no later than that of now.
func (c Charge) NotLater(l *Limit, now int64) Charge {
	if l.CountsSlots() {
		c.At = min(c.At, l.Slot(now))
	}
	return c
}
