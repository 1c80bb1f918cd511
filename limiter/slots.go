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
		s.add(g.At, g.Units)
	} else if c.Min > 0 {
		g.Retry = s.retry(l, c)
	}
	return g
}

// grantSlots grants what a claim asks for where used units count at its time. It doesn't say
// how long to wait for what is refused.
func (l *Limit) grantSlots(c Claim, used int64) Grant {
	g := l.share(c, l.amount-used)
	g.At = l.Slot(c.Now)
	if c.Next && l.algorithm == Sliding {
		g.At++
	} else if extra := g.Units - c.Want; extra > 0 && max(extra, c.Want) <= l.MaxLate() && used+g.Units <= l.amount/aheadShare {
		g.At += max(min(c.Ahead, l.MaxAhead()), 0)
	}
	g.Used = used + g.Units
	return g
}

// giveBack gives back what a lease holds, and moves what was spent of it from
// a slot in the future to the one of now, which is not before it was spent.
func (s *State) giveBack(l *Limit, c Claim) {
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

// retry returns how long a refused claim must wait until enough slots have
// expired that c.Min units are free.
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

// Coarsen joins the slots of a state that are together. What they hold is
// remembered for as long as the last of them, up to a 64th of the window longer.
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

// maxUsed is the most units that are believed to be in one slot: far more than
// any limit lets in, and so few that all slots that count at a time have a sum.
const maxUsed = math.MaxInt64 / (4 * MaxSlots)

// Clamp makes sense of a slot's value that may come from a damaged file.
func Clamp(used int64) int64 { return min(max(used, 0), maxUsed) }
