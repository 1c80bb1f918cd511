package limiter

import (
	"math"
	"slices"
	"time"
)

// Never is the retry time of a claim that no waiting can satisfy, because it
// asks for more than the limit's capacity.
const Never = time.Duration(-1)

// State is all that one key has used of one limit. The zero value is a key that
// has used nothing. A state belongs to limits of one algorithm, window and slot
// count; their amounts may differ.
//
// Invariant: Slots are in ascending order of Index, without repeats.
type State struct {
	Slots  []Slot // sliding and fixed limits
	Bucket Bucket // token buckets
}

// Slot is the units that were charged in one slot of a window.
type Slot struct {
	Index int64 // counted from the Unix epoch
	Used  int64 // units, never negative
}

// Claim asks for units.
type Claim struct {
	// Now is the time of the claim in nanoseconds since the Unix epoch.
	Now int64
	// Min is the fewest units that are of use: fewer are not granted.
	Min int64
	// Want is the units that are asked for, at least Min.
	Want int64
	// Extra is how many units may be granted on top of Want for later, never
	// more than an eighth of what is left then.
	Extra int64
	// Ahead is how many slots later the grant may be charged to, at most
	// [Limit.MaxAhead], so that its lease lasts as long. It is granted with Extra
	// units, at most [Limit.MaxLate] of these and of Want, while the key has used at
	// most a quarter of the amount; a token bucket ignores it.
	Ahead int64
	// Return is a lease of the same key whose unspent units are given back
	// before anything is granted. What was spent of a lease that was charged
	// ahead is moved to the slot of Now.
	Return Lease
	// Charge is charged whatever the limit says: units that were admitted while
	// the store was out of reach.
	Charge Charge
}

// Charge is units charged outside the rule of a limit.
type Charge struct {
	At    int64 // the slot of a sliding or fixed limit; a token bucket ignores it
	Units int64
	// Floor charges only what is missing until Units are in use at the time of
	// the claim, for a state that may or may not know of them.
	Floor bool
}

// missing returns the units to charge where used whole units are in use.
func (c Charge) missing(used int64) int64 {
	if c.Floor {
		return max(c.Units-used, 0)
	}
	return max(c.Units, 0)
}

// Grant answers a claim. A claim is refused if it asked for Min > 0 and
// Units is 0.
type Grant struct {
	// Lease holds the granted units and what is known of the state behind them.
	Lease
	// Retry is how long to wait until Min units are free if nothing else is
	// charged, or [Never]. It is 0 unless the claim was refused.
	Retry time.Duration
}

// Refused tells whether the grant refuses the claim it answers.
func (g Grant) Refused(c Claim) bool { return c.Min > 0 && g.Units == 0 }

// Claim gives back c.Return, charges c.Charge, and then grants what c asks for
// as far as it is left, charging it to s. A refused claim charges nothing.
func (l Limit) Claim(s *State, c Claim) Grant {
	if l.algorithm == TokenBucket {
		return l.claimBucket(&s.Bucket, c)
	}
	return l.claimSlots(s, c)
}

// Merge adds to a state what another one of the same key says, as of now: what
// was kept apart by mistake, or under another name.
func (l Limit) Merge(s *State, other State, now int64) {
	for _, slot := range other.Slots {
		s.add(slot.Index, Clamp(slot.Used))
	}
	if other.Bucket == (Bucket{}) {
		return
	}
	is, more := l.drainTo(s.Bucket, now), l.drainTo(other.Bucket, now)
	is.At = max(is.At, more.At)
	is.Units, is.Part = l.plus(is.Units, is.Part, more.Units, more.Part)
	is.Units = min(is.Units, 2*MaxAmount)
	s.Bucket = is
}

// share decides how many of the units that are left go to a claim.
func (l Limit) share(c Claim, left int64) Grant {
	left = max(left, 0)
	want := max(c.Want, c.Min)
	if left < c.Min || want <= 0 {
		return Grant{}
	}
	units := min(want, left)
	if extra := min(c.Extra, (left-units)/leaseExtraShare); extra > 0 {
		units += extra
	}
	return Grant{Lease: Lease{Units: units}}
}

// claimSlots is [Limit.Claim] for sliding and fixed limits.
func (l Limit) claimSlots(s *State, c Claim) Grant {
	l.returnSlots(s, c)
	if c.Charge.Units > 0 {
		s.add(c.Charge.At, c.Charge.missing(l.usedSlots(s, c.Now)))
	}
	used := l.usedSlots(s, c.Now)
	g := l.share(c, l.amount-used)
	g.At = l.Slot(c.Now)
	if extra := g.Units - c.Want; extra > 0 && max(extra, c.Want) <= l.MaxLate() && used+g.Units <= l.amount/aheadShare {
		g.At += max(min(c.Ahead, l.MaxAhead()), 0)
	}
	if g.Units > 0 {
		s.add(g.At, g.Units)
	} else if c.Min > 0 {
		g.Retry = l.retrySlots(s, c)
	}
	g.Used = used + g.Units
	return g
}

// returnSlots gives back what a lease holds, and moves what was spent of it from
// a slot in the future to the one of now, which is not before it was spent.
func (l Limit) returnSlots(s *State, c Claim) {
	if c.Return.Units > 0 {
		s.add(c.Return.At, -c.Return.Units)
	}
	if slot := l.Slot(c.Now); c.Return.Spent > 0 && c.Return.At > slot {
		moved := min(c.Return.Spent, s.at(c.Return.At))
		s.add(c.Return.At, -moved)
		s.add(slot, moved)
	}
}

// at returns the units charged in a slot.
func (s *State) at(index int64) int64 {
	for _, slot := range s.Slots {
		if slot.Index == index {
			return Clamp(slot.Used)
		}
	}
	return 0
}

// usedSlots returns the units that count at now.
func (l Limit) usedSlots(s *State, now int64) (used int64) {
	oldest, newest := l.Oldest(now), l.Newest(now)
	for _, slot := range s.Slots {
		if slot.Index >= oldest && slot.Index <= newest {
			used += Clamp(slot.Used)
		}
	}
	return used
}

// retrySlots returns how long a refused claim must wait until enough slots have
// expired that c.Min units are free.
func (l Limit) retrySlots(s *State, c Claim) time.Duration {
	if c.Min > l.amount {
		return Never
	}
	left := l.amount - l.usedSlots(s, c.Now)
	oldest, newest := l.Oldest(c.Now), l.Newest(c.Now)
	for _, slot := range s.Slots {
		if slot.Index < oldest || slot.Index > newest {
			continue
		}
		left += Clamp(slot.Used)
		if left >= c.Min {
			return time.Duration(l.Expiry(slot.Index) - c.Now)
		}
	}
	return time.Duration(l.window) // not reached: all slots together leave c.Min free
}

// add charges units to a slot; a negative number gives them back, as far as
// they are there.
func (s *State) add(index, units int64) {
	i, found := slices.BinarySearchFunc(s.Slots, index, func(slot Slot, index int64) int {
		switch {
		case slot.Index < index:
			return -1
		case slot.Index > index:
			return 1
		}
		return 0
	})
	if !found {
		if units <= 0 {
			return
		}
		s.Slots = slices.Insert(s.Slots, i, Slot{Index: index})
	}
	s.Slots[i].Used = Clamp(Clamp(s.Slots[i].Used) + min(units, maxUsed))
}

// Trim removes slots that no longer count at now, so that a state held in
// memory stays as small as its limit's number of slots.
func (l Limit) Trim(s *State, now int64) {
	if l.algorithm == TokenBucket {
		return
	}
	oldest := l.Oldest(now)
	s.Slots = slices.DeleteFunc(s.Slots, func(slot Slot) bool { return slot.Index < oldest })
}

// fewSlots is into how many parts a window is divided by Together.
const fewSlots = 64

// Together tells whether two slots may be taken for one where few have to do, as
// in memory: slots are joined so that there are 64 or fewer in a window, and of a
// limit that has no more than that, none.
func (l Limit) Together(slot, other int64) bool {
	group := max((l.Slots()+fewSlots-1)/fewSlots, 1)
	return slot/group == other/group
}

// Coarsen joins the slots of a state that are together. What they hold is
// remembered for as long as the last of them, up to a 64th of the window longer.
func (l Limit) Coarsen(s *State) {
	if l.slots <= fewSlots {
		return
	}
	joined := s.Slots[:0]
	for _, slot := range s.Slots {
		if last := len(joined) - 1; last >= 0 && l.Together(joined[last].Index, slot.Index) {
			slot.Used = Clamp(Clamp(slot.Used) + Clamp(joined[last].Used))
			joined[last] = slot
			continue
		}
		joined = append(joined, slot)
	}
	s.Slots = joined
}

// maxUsed is the most units that are believed to be in one slot: far more than
// any limit lets in, and so few that all slots that count at a time have a sum.
const maxUsed = math.MaxInt64 / (4 * MaxSlots)

// Clamp makes sense of a slot's value that may come from a damaged file.
func Clamp(used int64) int64 { return min(max(used, 0), maxUsed) }
