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

// State returns the state of a key, from its lease alone.
func (known Lease) State(l *Limit) (s State) {
	switch {
	case !l.CountsSlots():
		s.Bucket = Bucket{At: known.At, Units: known.Used, Part: known.Part}
	case known.Used > 0:
		s.Slots = []Slot{{Index: known.At, Used: known.Used}}
	}
	return s
}

// Expires returns the time from which on a state says nothing, if the limit stays as it
// is: of slots, when the last one ends that counts for a claim at now, or the smallest
// int64 if none does; of a bucket, when it is empty.
func (s *State) Expires(l *Limit, now int64) int64 {
	if !l.CountsSlots() {
		return s.Bucket.emptyAt(l)
	}
	newest := l.Newest(now)
	for i := len(s.Slots) - 1; i >= 0; i-- {
		if slot := s.Slots[i].Index; slot <= newest {
			return l.Expiry(slot)
		}
	}
	return math.MinInt64
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
	// more than an eighth of what is left then, see also Processes.
	Extra int64
	// Ahead is how many slots later the grant may be charged to, at most
	// [Limit.MaxAhead], so that its lease lasts as long. It is granted with Extra
	// units, at most [Limit.MaxLate] of these and of Want, while the key has used at
	// most a quarter of the amount; a token bucket ignores it.
	Ahead int64
	// Processes is how many processes claim for the key, 0 if that is not known: of Extra at most
	// the part of what is left then is granted that is 1 divided by twice their number, so that
	// what they hold together is half of that at most.
	Processes int64
	// Next has a grant of a sliding limit charged to the slot after that of Now whatever Ahead
	// says, so that its lease lasts over the end of this one. What is spent of it before is
	// forgotten a slot late. Other algorithms ignore it.
	Next bool
	// Lasts is for how many nanoseconds after Now a lease on a token bucket keeps all of its
	// worth, at most [Limit.MaxLasts]. It does so if Extra units are granted, and if the bucket is
	// not so full that what drains in that time must be kept free. Otherwise a lease drains from
	// Now on, as the bucket does, behind what its holder has spent. Other algorithms ignore it.
	Lasts int64
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

// Refused reports whether the grant refuses the claim it answers.
func (g Grant) Refused(c Claim) bool { return c.Min > 0 && g.Units == 0 }

// Claim gives back c.Return, charges c.Charge, and then grants what c asks for
// as far as it is left, charging it to s. A refused claim charges nothing.
func (l *Limit) Claim(s *State, c Claim) Grant {
	if !l.CountsSlots() {
		return s.Bucket.claim(l, c)
	}
	return s.claim(l, c)
}

// Merge adds to a state what another one of the same key says, as of now: what
// was kept apart by mistake, or under another name.
func (s *State) Merge(l *Limit, other State, now int64) {
	for _, slot := range other.Slots {
		s.add(slot.Index, Clamp(slot.Used))
	}
	if other.Bucket == (Bucket{}) {
		return
	}
	is, more := s.Bucket.drained(l, now), other.Bucket.drained(l, now)
	if is.At < more.At {
		is, more = more, is
	}
	units, part := more.asOf(l, now)
	is.Units, is.Part = l.plus(is.Units, is.Part, units, part)
	is.Units = min(is.Units, 2*MaxAmount)
	s.Bucket = is
}

// share decides how many of the units that are left go to a claim.
func (l *Limit) share(c Claim, left int64) Grant {
	left = max(left, 0)
	want := max(c.Want, c.Min)
	if left < c.Min || want <= 0 {
		return Grant{}
	}
	units := min(want, left)
	if extra := min(c.Extra, (left-units)/c.ExtraShare()); extra > 0 {
		units += extra
	}
	return Grant{Lease: Lease{Units: units}}
}

// ExtraShare returns the share of the units left that may be granted as [Claim.Extra]: 1
// divided by this number, which is at least 8.
func (c Claim) ExtraShare() int64 {
	return max(leaseExtraShare, 2*min(c.Processes, MaxAmount))
}

// Trim removes slots that no longer count at now, so that a state held in
// memory stays as small as its limit's number of slots.
func (s *State) Trim(l *Limit, now int64) {
	if !l.CountsSlots() {
		return
	}
	oldest := l.Oldest(now)
	s.Slots = slices.DeleteFunc(s.Slots, func(slot Slot) bool { return slot.Index < oldest })
}
