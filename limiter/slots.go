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

// grantSlots grants the units of a claim when used units count at its time. It doesn't set the
// retry time of a refusal.
func (l *Limit) grantSlots(c Claim, used int64) Grant {
	g := l.share(c, l.amount-used)
	g.Used = used + g.Units
	g.At = l.Slot(c.Now) + l.ahead(c, g)
	return g
}

// ahead returns how many slots later than its own a grant is charged, see [Claim.Ahead].
func (l *Limit) ahead(c Claim, g Grant) (slots int64) {
	if c.Next && l.algorithm == Sliding {
		slots = 1
	}
	extra := g.Units - c.Want
	if extra <= 0 || c.Ahead <= 0 {
		return slots
	}
	free := max(l.amount-g.Used, 0) * freeParts / l.amount * int64(l.slots) / freeParts
	return max(slots, min(c.Ahead, l.MaxAhead(), free, l.LateSlots()/max(extra, c.Want)))
}

// freeParts is the precision with which the free part of a limit is computed: coarse enough for the
// double-precision numbers of a Redis script, as 1024 times [MaxAmount] is below 2^53.
const freeParts = 1024

// LateSlots returns the bound on the units of a grant that is charged ahead times the slots that it is
// charged ahead: [Limit.MaxLate] units may be charged [Limit.MaxAhead] slots ahead, and more units
// fewer slots.
func (l *Limit) LateSlots() int64 { return l.MaxLate() * l.MaxAhead() }

// giveBack gives back the units of a lease. If its slot is in the future, giveBack moves its spent
// units to the slot of now, which is not before they were spent.
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

// add charges units to a slot. A negative number gives them back, as far as the slot has them.
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
