package region

import (
	"math"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// MinWindow is the shortest window that regions share. Counts arrive after some seconds, which is
// too late for a shorter one.
const MinWindow = time.Minute

// perWindow is the number of groups in a sliding window.
const perWindow = 8

// Groups divides the time of a limit into parts, in which regions count admitted units. The zero
// value is for a limit that stays regional.
type Groups struct {
	limit  limiter.Limit // the groups are its slots
	bucket bool
}

// GroupsOf returns the groups of a limit. It returns false if the window is too short, and the
// limit stays regional.
//
// Regions agree on the groups of limits that differ only in amounts. For token buckets they must
// also agree on the refill time, if it is longer than the window.
func GroupsOf(l limiter.Limit) (g Groups, shared bool) {
	if l.Window() < MinWindow {
		return g, false
	}
	window := l.Window()
	switch l.Algorithm() {
	case limiter.Fixed:
		return Groups{limit: l}, true
	case limiter.TokenBucket:
		window = min(max(window, l.Refill(l.Capacity())), limiter.MaxWindow)
		g.bucket = true
	}
	limit, err := limiter.New(limiter.Params{Amount: l.Amount(), Window: window, Slots: perWindow})
	if err != nil {
		return g, false // not reached: the window is that of a limit
	}
	g.limit = limit
	return g, true
}

// IsBucket reports whether the groups are of a token bucket: growth is charged to the bucket, which
// is not lowered.
func (g *Groups) IsBucket() bool { return g.bucket }

// At returns the group that a time lies in.
func (g *Groups) At(now int64) int64 { return g.limit.Slot(now) }

// Expires returns the time from which on a group no longer counts.
func (g *Groups) Expires(group int64) int64 { return g.limit.Expiry(group) }

// Period returns the minimum time, in nanoseconds, for which keys have one name in an exchange: a
// day, or the window if that is longer.
func (g *Groups) Period() int64 { return max(int64(24*time.Hour), int64(g.limit.Window())) }

// Oldest returns the oldest group that still counts at now.
func (g *Groups) Oldest(now int64) int64 { return g.limit.Oldest(now) }

// Newest returns the newest group that counts at now: a window ahead, for regions with fast clocks.
// Later groups come from a wrong clock.
func (g *Groups) Newest(now int64) int64 { return g.At(now) + g.limit.Slots() }

// Counts reports whether a group counts at now.
func (g *Groups) Counts(group, now int64) bool {
	return group >= g.Oldest(now) && group <= g.Newest(now)
}

// InForce returns the sum of the units that are in force at now, at most [limiter.MaxAmount].
func (g *Groups) InForce(units []limiter.Slot, now int64) (sum int64) {
	oldest, newest := g.Oldest(now), g.Newest(now)
	for _, u := range units {
		if u.Index >= oldest && u.Index <= newest {
			sum = min(sum+min(max(u.Used, 0), limiter.MaxAmount), limiter.MaxAmount)
		}
	}
	return sum
}

// Retry returns how long to wait until cost units of amount are free beside all units, own and
// foreign ones, if no more are admitted; [limiter.Never] if amount is less than cost. Groups count
// whole, so a store with finer counts has the units free by then.
func (g *Groups) Retry(units []limiter.Slot, amount, cost, now int64) time.Duration {
	l, err := g.limit.WithAmount(min(max(amount, 1), limiter.MaxAmount), 0)
	if err != nil {
		return limiter.Never // not reached: the amount is in range
	}
	units = slices.DeleteFunc(slices.Clone(units), func(u limiter.Slot) bool { return !g.Counts(u.Index, now) })
	var s limiter.State
	s.Merge(&l, limiter.State{Slots: units}, now)
	return l.Claim(&s, limiter.Claim{Now: now, Min: cost, Want: cost}).Retry
}

// Level returns the units in use at now of a token bucket from which only these units were taken.
// The units of a group are taken at its end, or at now if that is earlier, so the level is never
// less than the true one. units must be in ascending order of their groups.
func (g *Groups) Level(bucket limiter.Limit, units []limiter.Slot, now int64) int64 {
	var s limiter.State
	for _, u := range units {
		if g.Counts(u.Index, now) {
			end := g.limit.Expiry(u.Index) - int64(g.limit.Window()) + 1
			bucket.Claim(&s,
				limiter.Claim{Now: min(end, now),
					Charge: limiter.Charge{Units: min(max(u.Used, 0), limiter.MaxAmount)}})
		}
	}
	return min(bucket.Claim(&s, limiter.Claim{Now: now}).InUse(), bucket.Capacity())
}

// Begins returns the groups that count at now, in ascending order, and for each the first slot of the limit
// that begins in it. The first group has all earlier slots as well.
func (g *Groups) Begins(limit *limiter.Limit, now int64) (groups, slots []int64) {
	if g.bucket {
		return []int64{g.At(now)}, []int64{0}
	}
	for group := g.Oldest(now); group <= g.At(now); group++ {
		begins := g.limit.Ends(group - 1)
		slot := limit.Slot(begins)
		if limit.Ends(slot-1) < begins {
			slot++
		}
		groups, slots = append(groups, group), append(slots, slot)
	}
	slots[0] = math.MinInt64
	return groups, slots
}

// Missing returns the units that a store counts and that aren't among the known ones, by group. counted has
// the units that the store counts in each of the groups and later ones.
func Missing(groups, counted []int64, known []limiter.Slot) (missing []limiter.Slot) {
	var found int64 // in the group and later ones
	for i := len(groups) - 1; i >= 0; i-- {
		all := found
		for _, u := range known {
			if u.Index >= groups[i] {
				all += u.Used
			}
		}
		if lacks := counted[i] - all; lacks > 0 {
			missing = append(missing, limiter.Slot{Index: groups[i], Used: lacks})
			found += lacks
		}
	}
	return missing
}

// MostCharged returns the maximum of units charged to a token bucket at a time because of growth: a
// burst and the refill of a window. Growth within a few seconds is less. After an outage of the
// exchange it may be more, and no client should wait until that has drained.
func MostCharged(bucket limiter.Limit) int64 { return bucket.Capacity() + bucket.Amount() }

// freeShare is the share of a limit that regions may use together without publishing it.
const freeShare = 4

// Publishes reports whether a machine that has admitted own units of an amount must publish them,
// if there are so many other machines and none of them has published the key. While it returns
// false for all, they together hide at most a quarter of the amount.
func Publishes(own, amount int64, others int) bool {
	if others <= 0 || own <= 0 {
		return false
	}
	return own > amount/freeShare/int64(others)
}
