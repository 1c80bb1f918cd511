package limiter

import (
	"math"
	"time"
)

// Bucket is the state of a token bucket: Units + Part/window units are in use at time At, and they
// drain at amount/window. It is the GCRA's theoretical arrival time, written as the debt instead of
// the time of its payment. This keeps every operation exact in integers, and the units in use
// unchanged when the amount changes (decision 2).
//
// The zero value is an empty state: nothing in use. 0 ≤ Part < window.
type Bucket struct {
	At    int64 // nanoseconds since the Unix epoch
	Units int64 // whole units in use
	Part  int64 // and this many parts of a unit, each 1/window (in nanoseconds)
}

// inUse returns the units in use, and counts a part of a unit as whole.
func (b Bucket) inUse() int64 { return whole(b.Units, b.Part) }

// drained returns b at time now. A time before b.At changes nothing. A bucket that lies in the
// future by more than MaxSkew, one window and its refill time is considered damaged, and empty.
func (b Bucket) drained(l *Limit, now int64) Bucket {
	if b == (Bucket{}) {
		return Bucket{At: now}
	}
	b = b.clamp(l)
	if b.At > now {
		if ahead := uint64(b.At) - uint64(now); ahead > uint64(
			max(int64(MaxSkew), l.window, l.refillTime(l.capacity, 0))) {
			return Bucket{At: now}
		}
		return b
	}
	units, part := l.refilled(now - b.At)
	b.At = now
	b.Units, b.Part = l.less(b.Units, b.Part, units, part)
	return b
}

// clamp limits values to valid ones. They may come from a damaged file.
func (b Bucket) clamp(l *Limit) Bucket {
	b.Units = min(max(b.Units, 0), 2*MaxAmount)
	if b.Part < 0 || b.Part >= l.window {
		b.Part = 0
		b.Units++
	}
	return b
}

// claim is [Limit.Claim] for a token bucket.
func (b *Bucket) claim(l *Limit, c Claim) Grant {
	was := b.drained(l, c.Now)
	next := was
	returned := c.Return.drained(l, was.At)
	next.Units, next.Part = l.less(next.Units, next.Part, max(returned.Units, 0), returned.HeldPart)
	next.Units = min(addSaturating(next.Units, c.Charge.missing(next.Units)), 2*MaxAmount)

	g := l.share(c, l.capacity-next.inUseAt(l, c.Now))
	if g.Units == 0 && c.Min > 0 {
		g.Retry = next.retry(l, c)
	}
	if later := next.lasting(l, c); g.Units > max(c.Want, c.Min) && later.inUseAt(l, c.Now) <= l.capacity-g.Units {
		next, returned = later, returned.drained(l, later.At)
	}
	next.Units += g.Units
	g.At, g.Used, g.Part = next.At, next.Units, next.Part
	g.Lease.remember(l, returned.Spent, returned.SpentPart)
	if next != was || g.Units > 0 {
		*b = next
	}
	return g
}

// inUseAt returns the units in use at now, and counts a part of a unit as whole. A bucket with a
// later time has drained by then. Units that leases keep until then must not be granted before.
func (b Bucket) inUseAt(l *Limit, now int64) int64 { return whole(b.asOf(l, now)) }

// asOf returns the units and parts in use at now.
func (b Bucket) asOf(l *Limit, now int64) (units, part int64) {
	if b.At <= now {
		return b.Units, b.Part
	}
	units, part = l.refilled(int64(min(uint64(b.At)-uint64(now), uint64(l.MaxLasts()))))
	return l.plus(b.Units, b.Part, units, part)
}

// lasting returns the bucket at the time up to which the leases of a claim don't drain.
func (b Bucket) lasting(l *Limit, c Claim) Bucket {
	lasts := min(c.Lasts, l.MaxLasts())
	if lasts <= 0 || c.Now > math.MaxInt64-lasts || c.Now+lasts <= b.At {
		return b
	}
	return b.drained(l, c.Now+lasts)
}

const (
	lastsShare = 16                     // 1/lastsShare of a bucket may drain while leases on it don't
	maxLasts   = int64(2 * time.Second) // upper bound for that time
)

// MaxLasts returns for how many nanoseconds after a claim a lease on a token bucket may keep its
// full worth: the time in which a 16th of the bucket drains, at most two seconds. It is 0 for other
// limits.
func (l *Limit) MaxLasts() int64 {
	if l.algorithm != TokenBucket {
		return 0
	}
	return min(l.refillTime(l.capacity/lastsShare, 0), maxLasts)
}

// retry returns how long a claim must wait until c.Min units are free.
func (b Bucket) retry(l *Limit, c Claim) time.Duration {
	if c.Min > l.capacity {
		return Never
	}
	wait := max(b.At-c.Now, 0)
	over := b.Units + c.Min - l.capacity
	if over > 0 || over == 0 && b.Part > 0 {
		return time.Duration(addSaturating(wait, l.refillTime(over, b.Part)))
	}
	units, part := l.less(-over, 0, 0, b.Part) // free at the bucket's time: at least as many as needed
	drains, _ := l.drainTime(units, part)
	return time.Duration(wait - drains)
}

// Cap lowers the units of a token bucket in use at now to the capacity of the limit, if it was
// filled under a larger limit. So it drains no longer than a full one. Slots stay unchanged.
func (s *State) Cap(l *Limit, now int64) {
	if l.CountsSlots() {
		return
	}
	b := s.Bucket.drained(l, now)
	b.Units, b.Part = b.asOf(l, now)
	b.At = now
	b.Units, b.Part = lesser(b.Units, b.Part, l.capacity, 0)
	s.Bucket = b
}

// emptyAt returns the time from which on a bucket is empty, if the limit stays the same.
func (b Bucket) emptyAt(l *Limit) int64 {
	ls := Lease{At: b.At, Used: b.Units, Part: b.Part}
	takes := int64(ls.Quota(l, b.At).Reset)
	if b.At > math.MaxInt64-takes {
		return math.MaxInt64
	}
	return b.At + takes
}
