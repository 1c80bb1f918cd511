package limiter

import (
	"math"
	"slices"
	"time"
)

// Never is the retry time of a claim that no waiting can satisfy, because it
// asks for more than the limit's capacity.
const Never = time.Duration(-1)

// State is the usage of one limit by one key. The zero value is an unused key. A state belongs to
// limits of one algorithm, window and slot count; their amounts may differ.
//
// Invariant: Slots are in ascending order of Index, without repeats.
type State struct {
	Slots  []Slot // sliding and fixed limits
	Bucket Bucket // token buckets
}

// Slot is the units charged in one slot of a window.
type Slot struct {
	Index int64 // counted from the Unix epoch
	Used  int64 // units, never negative
}

// State returns the state of a key, from its lease alone.
func (ls Lease) State(l *Limit) (s State) {
	switch {
	case !l.CountsSlots():
		s.Bucket = Bucket{At: ls.At, Units: ls.Used, Part: ls.Part}
	case ls.Used > 0:
		s.Slots = []Slot{{Index: ls.At, Used: ls.Used}}
	}
	return s
}

// Expires returns the time from which on a state has no effect, if the limit stays the same. For
// slots it is the end of the last slot that counts for a claim at now, or the smallest int64 if
// none counts. For a bucket it is the time when it is empty.
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
	// Min is the fewest useful units: fewer are not granted.
	Min int64
	// Want is the number of units asked for, at least Min.
	Want int64
	// Extra is how many units may be granted on top of Want for later use: at most an eighth of the
	// units left then. See also Processes.
	Extra int64
	// Ahead is how many slots later the grant may be charged, at most [Limit.MaxAhead], so that its
	// lease lasts as long. Such a grant needs Extra units. It is charged fewer slots later if it is
	// large, see [Limit.MaxLate], or if the key has used much: at most the part of a window's slots
	// that is the free part of the amount, so that a key that goes on at its pace is not refused
	// because its units are forgotten late. Token buckets ignore Ahead.
	Ahead int64
	// Processes is how many processes claim for the key, 0 if unknown. At most 1/(2·Processes) of
	// the units left is then granted as Extra, so that all processes together hold at most half of
	// them.
	Processes int64
	// Spread charges a grant of a sliding limit evenly to the slot of Now and as many slots after it
	// as Ahead says, at most [MaxSpan] and [Limit.MaxAhead], and to proportionally fewer slots if
	// fewer units are granted than Want and Extra. So a key that needs as many units in as many slots
	// spends each unit in its slot, and none is forgotten late (decision 148). Other algorithms ignore Spread.
	Spread bool
	// Lasts is for how many nanoseconds after Now a lease on a token bucket keeps its full worth,
	// at most [Limit.MaxLasts]. It needs Extra units, and a bucket that is not so full that the
	// units draining in that time must be kept free. Otherwise a lease drains from Now on, as the
	// bucket does, after the units spent by its holder. Other algorithms ignore Lasts.
	Lasts int64
	// Return is a lease of the same key. Its unspent units are given back before anything is
	// granted. Spent units that were charged ahead are moved to the slot of Now.
	Return Lease
	// Charge is charged regardless of the limit, for units admitted while the store was
	// unreachable.
	Charge Charge
}

// Charge is units charged regardless of a limit.
type Charge struct {
	At    int64 // the slot of a sliding or fixed limit; a token bucket ignores it
	Units int64
	// Floor charges only the units missing until Units are in use at the time of the claim, for a
	// state that may or may not contain them already (decision 16).
	Floor bool
}

// missing returns the units to charge if used whole units are in use.
func (c Charge) missing(used int64) int64 {
	if c.Floor {
		return max(c.Units-used, 0)
	}
	return max(c.Units, 0)
}

// Grant answers a claim. A claim is refused if it asked for Min > 0 and
// Units is 0.
type Grant struct {
	// Lease holds the granted units and the known state behind them.
	Lease
	// Retry is how long to wait until Min units are free if nothing else is charged, or [Never]. It
	// is 0 unless the claim was refused.
	Retry time.Duration
}

// Refused reports whether the grant refuses the claim it answers.
func (g Grant) Refused(c Claim) bool { return c.Min > 0 && g.Units == 0 }

// Claim gives back c.Return, charges c.Charge, then grants the units that c asks for, as far as
// they are left, and charges them to s. A refused claim charges nothing.
func (l *Limit) Claim(s *State, c Claim) Grant {
	if !l.CountsSlots() {
		return s.Bucket.claim(l, c)
	}
	return s.claim(l, c)
}

// Merge adds another state of the same key to s, as of now. The two were kept apart by mistake, or
// under different names.
func (s *State) Merge(l *Limit, other State, now int64) {
	for _, slot := range other.Slots {
		s.add(slot.Index, Clamp(slot.Used))
	}
	if other.Bucket == (Bucket{}) {
		return
	}
	sum, more := s.Bucket.drained(l, now), other.Bucket.drained(l, now)
	if sum.At < more.At {
		sum, more = more, sum
	}
	units, part := more.asOf(l, now)
	sum.Units, sum.Part = l.plus(sum.Units, sum.Part, units, part)
	sum.Units = min(sum.Units, 2*MaxAmount)
	s.Bucket = sum
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
