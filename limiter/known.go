package limiter

// Changes are the changes that a claim makes to the state of a key.
type Changes struct {
	// Slots are units that are added to slots of a sliding or fixed limit; negative ones
	// are taken away. Those of 0 units say nothing. No two that say something are of one
	// slot.
	Slots [3]Slot
	// Bucket is the state of a token bucket afterwards.
	Bucket Bucket
}

// Apply changes the state of a key.
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

// Recall returns a lease without units that counts what a state says is in use, each of its units
// as long as the one that counts longest. It returns false for a state that counts something
// charged ahead, or of a time to come.
func (s *State) Recall(l *Limit, now int64) (known Lease, ok bool) {
	if !l.CountsSlots() {
		b := s.Bucket
		return Lease{At: b.At, Used: b.Units, Part: b.Part}, b.At <= now
	}
	slot, oldest := l.Slot(now), l.Oldest(now)
	for _, is := range s.Slots {
		switch {
		case is.Index > slot:
			return Lease{}, false
		case is.Index >= oldest && is.Used > 0:
			known.At = is.Index
			known.Used += is.Used
		}
	}
	return known, true
}

// ClaimKnown answers a claim as [Limit.Claim] does with the [Lease.State] a lease, and
// returns what that changes. What the claim gives back must be that lease, or nothing; it
// charges nothing. A grant that is refused does not say how long to wait.
//
// Where nobody else has charged the key since the lease was granted, the lease knows of all
// that is in use. It may count some of that for longer than the state of the key does. So
// what is granted here is free in the state as well, and the changes are right for it; a claim
// that is refused here may be granted there.
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
	var moved int64 // see returnSlots
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
