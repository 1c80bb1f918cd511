package limiter

// Changes are the changes of a key's state by a claim.
type Changes struct {
	// Slots are units added to slots of a sliding or fixed limit; negative units are taken away.
	// Elements with 0 units have no meaning. All others are of different slots.
	Slots [3]Slot
	// Bucket is the state of a token bucket afterwards.
	Bucket Bucket
}

// Apply applies changes to the state of a key.
func (s *State) Apply(l *Limit, changes Changes) {
	if !l.CountsSlots() {
		s.Bucket = changes.Bucket
		return
	}
	for _, slot := range changes.Slots {
		if slot.Used != 0 {
			s.add(slot.Index, slot.Used)
		}
	}
}

// ClaimKnown answers a claim as [Limit.Claim] does with the [Lease.State] of a lease, and returns
// the changes. The claim must give back that lease or nothing, charge nothing, and not be spread. A
// refused grant does not say how long to wait.
//
// If no other process has charged the key since the lease was granted, the lease knows all units in
// use. It may count some of them for longer than the state of the key does. So units granted here
// are free in the state as well, and the changes are right for it. A claim that is refused here may
// be granted there.
func (l *Limit) ClaimKnown(known Lease, c Claim) (g Grant, changes Changes) {
	if l.CountsSlots() {
		return l.claimKnownSlots(known, c)
	}
	changes.Bucket = Bucket{At: known.At, Units: known.Used, Part: known.Part}
	g = changes.Bucket.claim(l, c)
	return g, changes
}

func (l *Limit) claimKnownSlots(known Lease, c Claim) (g Grant, changes Changes) {
	slot, left := l.Slot(c.Now), known.Used
	back := min(max(c.Return.Units, 0), left)
	left -= back
	var moved int64 // see State.giveBack
	if c.Return.Spent > 0 && c.Return.At > slot {
		moved = min(c.Return.Spent, left)
	}
	if known.At < l.Oldest(c.Now) || known.At > l.Newest(c.Now) {
		left = moved
	}
	g = l.grantSlots(c, left)
	changes.Slots[0] = Slot{Index: known.At, Used: -back - moved}
	changes.Slots[1] = Slot{Index: slot, Used: moved}
	for i := range changes.Slots {
		if last := &changes.Slots[i]; last.Used == 0 || last.Index == g.At {
			last.Index = g.At
			last.Used += g.Units
			break
		}
	}
	return g, changes
}
