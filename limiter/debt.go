package limiter

import "slices"

// A debt is units that were admitted without the store, which the store is to charge.
// [Claim.Charge] charges one.

// AddDebt adds a charge to debts, as few as will do, and returns them. state is what
// memory counts of the key, the charge included. Debts of slots that no longer count at
// now are dropped. For a token bucket, all debts are one, and at most what is in use by
// the state: memory may drain it at a reduced rate, so the rest has drained at the full
// rate as well.
func (l Limit) AddDebt(debts []Charge, more Charge, state *State, now int64) []Charge {
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
	debts = slices.DeleteFunc(debts, func(debt Charge) bool { return !l.Counts(debt, now) })
	return append(debts, more)
}

// ForgiveDebt takes a charge off debts, as far as they have it in its slot, and returns the units
// that it took.
func (l Limit) ForgiveDebt(debts []Charge, charge Charge) (forgiven int64) {
	for i := range debts {
		if !l.CountsSlots() || l.Together(debts[i].At, charge.At) {
			forgiven = min(charge.Units, debts[i].Units)
			debts[i].Units -= forgiven
			return forgiven
		}
	}
	return 0
}

// SettleDebts spends granted units on debts, and returns the debts that remain. Units are
// never booked before the slot that they were spent in: for debts of later slots than
// the grant's, as many granted units are taken out as there are, in back, to be given
// back, and the debts remain.
func (l Limit) SettleDebts(debts []Charge, granted *Lease, now int64) (rest []Charge, back Lease) {
	back.At = granted.At
	for i := range debts {
		debt := &debts[i]
		settled := min(debt.Units, granted.Units)
		switch {
		case !l.CountsSlots():
			if settled = min(settled, l.Worth(granted, now)); l.Spend(granted, now, settled) {
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
func (l Limit) Counts(charge Charge, now int64) bool {
	return !l.CountsSlots() || charge.At >= l.Oldest(now)
}

// NotLater returns a charge with a slot no later than that of now.
func (l Limit) NotLater(charge Charge, now int64) Charge {
	if l.CountsSlots() {
		charge.At = min(charge.At, l.Slot(now))
	}
	return charge
}
