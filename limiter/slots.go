package limiter

import (
	"math"
	"slices"
	"time"
)

// claim is [Limit.Claim] for sliding and fixed limits.
func (s *State) claim(l *Limit, c Claim) Grant {
	s.giveBack(l, c)
	if c.Charge.Units > 0 {
		s.add(c.Charge.At, c.Charge.missing(s.used(l, c.Now)))
	}
	g := l.grantSlots(c, s.used(l, c.Now))
	if g.Units > 0 {
		for i := range g.Span + 1 {
			slot := g.At - g.Span + i
			s.add(slot, g.before(slot+1)-g.before(slot))
		}
	} else if c.Min > 0 {
		g.Retry = s.retry(l, c)
	}
	return g
}

// grantSlots grants the units of a claim when used units count at its time. It doesn't set the
// retry time of a refusal.
func (l *Limit) grantSlots(c Claim, used int64) Grant {
	g := l.share(c, l.amount-used)
	g.Used = used + g.Units
	g.At = l.Slot(c.Now)
	switch ahead := max(min(c.Ahead, l.MaxAhead()), 0); {
	case g.Units == 0:
	case c.Spread:
		g.Span = l.span(c, g, min(ahead, MaxSpan))
		g.At += g.Span
	default:
		g.At += l.late(c, g, ahead)
	}
	return g
}

// MaxSpan is the most slots that [Claim.Spread] charges beside the slot of the claim.
const MaxSpan = 60

// span returns over how many slots after its own a grant is spread, see [Claim.Spread].
func (l *Limit) span(c Claim, g Grant, ahead int64) int64 {
	asked := min(max(c.Want, c.Min), l.amount) + min(max(c.Extra, 0), l.amount)
	return max((ahead+1)*g.Units/asked-1, 0)
}

// late returns how many slots later than its own a grant is charged as a whole, see [Claim.Ahead].
func (l *Limit) late(c Claim, g Grant, ahead int64) int64 {
	extra := g.Units - c.Want
	if extra <= 0 {
		return 0
	}
	free := max(l.amount-g.Used, 0) * freeParts / l.amount * int64(l.slots) / freeParts
	return min(ahead, free, l.LateSlots()/max(extra, c.Want))
}

// freeParts is the precision with which the free part of a limit is computed: coarse enough for the
// double-precision numbers of a Redis script, as 1024 times [MaxAmount] is below 2^53.
const freeParts = 1024

// LateSlots returns the bound on the units of a grant that is charged ahead times the slots that it is
// charged ahead: [Limit.MaxLate] units may be charged [Limit.MaxAhead] slots ahead, and more units
// fewer slots.
func (l *Limit) LateSlots() int64 { return l.MaxLate() * l.MaxAhead() }

// giveBack gives back the units of a lease. Spent units that are charged to slots in the future
// are moved to the slot of now, which is not before they were spent.
func (s *State) giveBack(l *Limit, c Claim) {
	ls := &c.Return
	if ls.Units <= 0 && ls.Spent <= 0 {
		return
	}
	ls.Units, ls.Spent = Clamp(ls.Units), Clamp(ls.Spent)
	ls.Span, ls.Lapsed = min(max(ls.Span, 0), MaxSpan), Clamp(ls.Lapsed)
	now := l.Slot(c.Now)
	for i := range ls.Span + 1 {
		slot := ls.At - ls.Span + i
		spent := ls.spentIn(slot)
		s.add(slot, ls.before(slot)+spent-ls.before(slot+1))
		if slot > now {
			s.add(now, -s.add(slot, -spent))
		}
	}
}

// used returns the units that count at now.
func (s *State) used(l *Limit, now int64) (used int64) {
	oldest, newest := l.Oldest(now), l.Newest(now)
	for _, slot := range s.Slots {
		if slot.Index >= oldest && slot.Index <= newest {
			used += Clamp(slot.Used)
		}
	}
	return used
}

// retry returns how long a refused claim must wait until enough slots have expired that c.Min units
// are free.
func (s *State) retry(l *Limit, c Claim) time.Duration {
	if c.Min > l.amount {
		return Never
	}
	left := l.amount - s.used(l, c.Now)
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

// add charges units to a slot. A negative number gives them back, as far as the slot has them. It
// returns the difference made.
func (s *State) add(index, units int64) (added int64) {
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
			return 0
		}
		s.Slots = slices.Insert(s.Slots, i, Slot{Index: index})
	}
	was := Clamp(s.Slots[i].Used)
	s.Slots[i].Used = Clamp(was + min(units, maxUsed))
	return s.Slots[i].Used - was
}

// Coarsen joins the slots of a state that are together. Joined units are remembered as long as the
// last of the joined slots, which is up to a 64th of the window longer.
func (s *State) Coarsen(l *Limit) {
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

// maxUsed is the maximum of the units in one slot: far more than any limit admits, and so few that
// the sum of all slots of a window doesn't overflow.
const maxUsed = math.MaxInt64 / (4 * MaxSlots)

// Clamp limits a slot's value to a valid one. It may come from a damaged file.
func Clamp(used int64) int64 { return min(max(used, 0), maxUsed) }
