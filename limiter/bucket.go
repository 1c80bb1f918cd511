package limiter

import (
	"math"
	"math/bits"
	"time"
)

// Bucket is the state of a token bucket: Units + Part/window units are in use
// at time At, and they drain at amount/window. It is the GCRA's theoretical
// arrival time written as what is owed instead of when it is paid, which keeps
// every operation exact in integers and lets the units in use stay what they
// are when the amount changes.
//
// The zero value is an empty state: nothing in use. 0 ≤ Part < window.
type Bucket struct {
	At    int64 // nanoseconds since the Unix epoch
	Units int64 // whole units in use
	Part  int64 // and this many parts of a unit, each 1/window (in nanoseconds)
}

// inUse returns the units in use, a part of a unit counted whole.
func (b Bucket) inUse() int64 { return whole(b.Units, b.Part) }

// drainTo returns what is left of b at time now. A time before b.At changes
// nothing, a bucket that lies in the future by more than MaxSkew, one window and
// the time it takes to refill is taken as damaged and empty.
func (l Limit) drainTo(b Bucket, now int64) Bucket {
	if b == (Bucket{}) {
		return Bucket{At: now}
	}
	b = l.clampBucket(b)
	if b.At > now {
		if ahead := uint64(b.At) - uint64(now); ahead > uint64(max(int64(MaxSkew), l.window, l.refillTime(l.capacity, 0))) {
			return Bucket{At: now}
		}
		return b
	}
	units, part := l.refilled(now - b.At)
	b.At = now
	b.Units, b.Part = l.less(b.Units, b.Part, units, part)
	return b
}

// less takes units and parts of one from others, which end at zero.
func (l *Limit) less(units, part, byUnits, byPart int64) (int64, int64) {
	if byUnits > units || (byUnits == units && byPart >= part) {
		return 0, 0
	}
	units, part = units-byUnits, part-byPart
	if part < 0 {
		units, part = units-1, part+l.window
	}
	return units, part
}

// plus adds units and parts of one to others.
func (l *Limit) plus(units, part, byUnits, byPart int64) (int64, int64) {
	units, part = units+byUnits, part+byPart
	if part >= l.window {
		units, part = units+1, part-l.window
	}
	return units, part
}

// lesser returns the lesser of two numbers of units and parts of one.
func lesser(units, part, otherUnits, otherPart int64) (int64, int64) {
	if otherUnits < units || (otherUnits == units && otherPart < part) {
		return otherUnits, otherPart
	}
	return units, part
}

// whole returns units, and one more for a part of one.
func whole(units, part int64) int64 {
	if part > 0 {
		return addSaturating(units, 1)
	}
	return units
}

// clampBucket makes sense of values that may come from a damaged file.
func (l Limit) clampBucket(b Bucket) Bucket {
	b.Units = min(max(b.Units, 0), 2*MaxAmount)
	if b.Part < 0 || b.Part >= l.window {
		b.Part = 0
		b.Units++
	}
	return b
}

// refilled returns how many units, and parts of one, drain in elapsed
// nanoseconds. A number that does not fit is as good as infinite.
func (l *Limit) refilled(elapsed int64) (units, part int64) {
	hi, lo := bits.Mul64(uint64(elapsed), uint64(l.amount))
	if hi >= uint64(l.window) {
		return math.MaxInt64, 0
	}
	q, r := bits.Div64(hi, lo, uint64(l.window))
	if q > math.MaxInt64 {
		return math.MaxInt64, 0
	}
	return int64(q), int64(r)
}

// refillTime returns the nanoseconds in which units and part drain, rounded up.
func (l *Limit) refillTime(units, part int64) int64 {
	nanos, exact := l.drainTime(units, part)
	if !exact && nanos < math.MaxInt64 {
		nanos++
	}
	return nanos
}

// drainTime returns the nanoseconds in which no more than units and part drain, and whether these
// drain in exactly that time.
func (l *Limit) drainTime(units, part int64) (nanos int64, exact bool) {
	hi, lo := bits.Mul64(uint64(units), uint64(l.window))
	lo, carry := bits.Add64(lo, uint64(part), 0)
	hi += carry
	if hi >= uint64(l.amount) {
		return math.MaxInt64, false
	}
	q, r := bits.Div64(hi, lo, uint64(l.amount))
	return int64(min(q, math.MaxInt64)), r == 0
}

// claimBucket is [Limit.Claim] for a token bucket.
func (l Limit) claimBucket(b *Bucket, c Claim) Grant {
	was := l.drainTo(*b, c.Now)
	is := was
	returned := l.drainLease(c.Return, was.At)
	is.Units, is.Part = l.less(is.Units, is.Part, max(returned.Units, 0), returned.HeldPart)
	is.Units = min(addSaturating(is.Units, c.Charge.missing(is.Units)), 2*MaxAmount)

	g := l.share(c, l.capacity-l.inUseAt(is, c.Now))
	if g.Units == 0 && c.Min > 0 {
		g.Retry = l.retryBucket(is, c)
	}
	if later := l.lasting(is, c); g.Units > max(c.Want, c.Min) && l.inUseAt(later, c.Now) <= l.capacity-g.Units {
		is, returned = later, l.drainLease(returned, later.At)
	}
	is.Units += g.Units
	g.At, g.Used, g.Part = is.At, is.Units, is.Part
	l.remember(&g.Lease, returned.Spent, returned.SpentPart)
	if is != was || g.Units > 0 {
		*b = is
	}
	return g
}

// inUseAt returns the units in use at now, a part of a unit counted whole. A bucket whose time is
// later has drained by then, and what is in leases until then must not be granted again before.
func (l Limit) inUseAt(b Bucket, now int64) int64 { return whole(l.asOf(b, now)) }

// asOf returns the units and parts of one in use at now.
func (l Limit) asOf(b Bucket, now int64) (units, part int64) {
	if b.At <= now {
		return b.Units, b.Part
	}
	units, part = l.refilled(int64(min(uint64(b.At)-uint64(now), uint64(l.MaxLasts()))))
	return l.plus(b.Units, b.Part, units, part)
}

// lasting returns what a bucket is at the time to which leases on it that a claim is granted don't
// drain.
func (l Limit) lasting(b Bucket, c Claim) Bucket {
	lasts := min(c.Lasts, l.MaxLasts())
	if lasts <= 0 || c.Now > math.MaxInt64-lasts || c.Now+lasts <= b.At {
		return b
	}
	return l.drainTo(b, c.Now+lasts)
}

const (
	lastsShare = 16                     // of a bucket may drain while leases on it don't
	maxLasts   = int64(2 * time.Second) // which is no longer than this
)

// MaxLasts returns for how many nanoseconds after a claim a lease on a token bucket may keep all
// of its worth: in which a 16th of the bucket drains, and two seconds at most. It is 0 for other
// limits.
func (l *Limit) MaxLasts() int64 {
	if l.algorithm != TokenBucket {
		return 0
	}
	return min(l.refillTime(l.capacity/lastsShare, 0), maxLasts)
}

// retryBucket returns how long a claim must wait until c.Min units are free.
func (l Limit) retryBucket(b Bucket, c Claim) time.Duration {
	if c.Min > l.capacity {
		return Never
	}
	wait := max(b.At-c.Now, 0)
	over := b.Units + c.Min - l.capacity
	if over > 0 || over == 0 && b.Part > 0 {
		return time.Duration(addSaturating(wait, l.refillTime(over, b.Part)))
	}
	units, part := l.less(-over, 0, 0, b.Part) // are free at the bucket's time: more than must be
	drains, _ := l.drainTime(units, part)
	return time.Duration(wait - drains)
}

// Cap lowers what a token bucket has in use at now to the capacity of the limit, where it was filled
// under a larger limit. So it drains no longer than a full one. Slots stay as they are.
func (l Limit) Cap(s *State, now int64) {
	if l.CountsSlots() {
		return
	}
	b := l.drainTo(s.Bucket, now)
	b.Units, b.Part = l.asOf(b, now)
	b.At = now
	b.Units, b.Part = lesser(b.Units, b.Part, l.capacity, 0)
	s.Bucket = b
}

// emptyAt returns the time from which on a bucket is empty, if the limit stays as it is.
func (l Limit) emptyAt(b Bucket) int64 {
	takes := int64(l.Quota(Lease{At: b.At, Used: b.Units, Part: b.Part}, b.At).Reset)
	if b.At > math.MaxInt64-takes {
		return math.MaxInt64
	}
	return b.At + takes
}
