package limiter

import (
	"fmt"
	"math"
	"time"
)

// Bounds of the parameters of a limit. They keep every intermediate result of this package within
// 128 bits and every stored value within 63.
const (
	MinAmount = 1
	MaxAmount = 1 << 40
	MinWindow = 100 * time.Millisecond
	MaxWindow = 366 * 24 * time.Hour
	MinSlots  = 1
	MaxSlots  = 10_000

	// Month is the window of a fixed limit per month of the calendar: an average month. Such windows begin
	// with the first day of a month, and have 28 to 31 days (decision 163).
	Month = 30*24*time.Hour + 10*time.Hour + 29*time.Minute + 6*time.Second

	// MaxSkew is how far the time of a claim may lie behind an earlier charge by another process,
	// because their clocks differ or the claim was delayed, for a token bucket to be sure to count
	// that charge.
	MaxSkew = time.Minute

	// MaxRefill is the longest time that an empty token bucket may take to
	// fill up again.
	MaxRefill = 100 * 365 * 24 * time.Hour
)

const (
	defaultSlots    = 60
	leaseExtraShare = 8  // headroom is at most 1/8 of the units left, or less, see Claim.Processes
	lateShare       = 64 // and at most 1/64 of the amount for the longest leases
	slowShare       = 4  // a slow key keeps to 1/4 of the rate, see Lease.Slow
)

// Algorithm determines how units are forgotten.
type Algorithm uint8

// The algorithms. The zero value is [Sliding].
const (
	// Sliding counts units in slots of a fraction of the window and sums the
	// slots that overlap the last window, the oldest counted whole: at most the
	// amount in any interval as long as the window.
	Sliding Algorithm = iota
	// Fixed counts units in windows aligned to the Unix epoch, or to the days of a
	// time zone: at most the amount per aligned window, so up to twice the amount
	// across an edge.
	Fixed
	// TokenBucket lets bursts through and refills evenly (GCRA): at most
	// burst + T·amount/window in any interval of length T.
	TokenBucket
)

// String returns the name of the algorithm as it is written in a configuration.
func (a Algorithm) String() string {
	switch a {
	case Sliding:
		return "sliding"
	case Fixed:
		return "fixed"
	case TokenBucket:
		return "token_bucket"
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// ParseAlgorithm returns the algorithm with a name, as returned by [Algorithm.String].
func ParseAlgorithm(name string) (Algorithm, error) {
	for _, a := range []Algorithm{Sliding, Fixed, TokenBucket} {
		if name == a.String() {
			return a, nil
		}
	}
	return 0, fmt.Errorf("unknown algorithm %q: expected %v, %v or %v", name, Sliding, Fixed, TokenBucket)
}

// Params describe a limit. [New] checks them.
type Params struct {
	// Algorithm is sliding by default.
	Algorithm Algorithm
	// Amount is the number of units per Window, from [MinAmount] to [MaxAmount].
	Amount int64
	// Window is the time that Amount is counted over, from [MinWindow] to
	// [MaxWindow].
	Window time.Duration
	// Burst is the capacity of a token bucket in units, from 1 to [MaxAmount];
	// zero means Amount. The other algorithms take none.
	Burst int64
	// Slots is the number of parts a sliding window is counted in, from
	// [MinSlots] to [MaxSlots]; zero means 60. The other algorithms take none.
	Slots int
	// Location makes a fixed window begin at midnight on the clocks of a place, according to its
	// time zone and daylight saving. The window must be whole days, counted from 1970-01-01, or
	// [Month]. Nil means that windows are aligned to the Unix epoch, which is in UTC. The other
	// algorithms take none.
	Location *time.Location
}

// Limit is an amount of units per window: how many may be used, and in which slots or at which rate
// they are forgotten. It is an immutable value. Only limits made by [New] or from such limits are
// usable.
//
// The used units of a key are counted separately, by [State], [Lease], [Debts] and [Held].
//
// Invariants: a limit has slots, or it is a token bucket. Its capacity is its amount, unless it is
// a token bucket.
type Limit struct {
	rate
	calendar
	algorithm Algorithm
	capacity  int64 // the most units that can be used at once
}

// New returns the limit described by p, or an error that names the value that is out of its range.
func New(p Params) (Limit, error) {
	l := Limit{algorithm: p.Algorithm, rate: rate{window: int64(p.Window)}}
	if p.Window < MinWindow {
		return Limit{}, fmt.Errorf("window must be at least %v, got %v", MinWindow, p.Window)
	}
	if p.Window > MaxWindow {
		return Limit{}, fmt.Errorf("window must be at most 366 days (%v), got %v", MaxWindow, p.Window)
	}
	switch p.Algorithm {
	case Sliding:
		l.slots = defaultSlots
		if p.Slots != 0 {
			if p.Slots < MinSlots || p.Slots > MaxSlots {
				return Limit{}, fmt.Errorf("slots must be between %d and %d, got %d", MinSlots, MaxSlots, p.Slots)
			}
			l.slots = int32(p.Slots)
		}
	case Fixed:
		l.slots = 1
	case TokenBucket:
	default:
		return Limit{}, fmt.Errorf("unknown algorithm %v", p.Algorithm)
	}
	if p.Algorithm != Sliding && p.Slots != 0 {
		return Limit{}, fmt.Errorf("slots belong to a sliding limit, not to %v", p.Algorithm)
	}
	if err := checkCalendar(p); err != nil {
		return Limit{}, err
	}
	if l.slots > 0 {
		l.fixed, l.length, l.location = p.Algorithm == Fixed, l.window, p.Location
		l.width = (l.window + int64(l.slots) - 1) / int64(l.slots)
		if l.months = l.fixed && p.Window == Month; l.months && l.location == nil {
			l.location = time.UTC
		}
	}
	return l.WithAmount(p.Amount, p.Burst)
}

// Stored returns the limit, with an amount of 1, for the algorithm, window and slots in a store,
// which come from [Algorithm], [Limit.Window] and [Limit.Slots]. It returns an error if they are
// invalid. The time zone of a fixed limit is not stored, see [Limit.ZoneSlack].
func Stored(algorithm, window, slots int64) (Limit, error) {
	p := Params{Algorithm: Algorithm(algorithm), Amount: 1, Window: time.Duration(window)}
	if p.Algorithm == Sliding {
		p.Slots = int(slots)
	}
	if int64(p.Algorithm) != algorithm {
		return Limit{}, fmt.Errorf("unknown algorithm %d", algorithm)
	}
	return New(p)
}

// ZoneSlack returns the most nanoseconds by which the windows of the limit may lie
// earlier or later in another time zone.
func (l Limit) ZoneSlack() int64 {
	if l.algorithm == Fixed && (l.months || l.window%int64(day) == 0) {
		return int64(MaxOffset)
	}
	return 0
}

// WithAmount returns the limit with another amount and burst, for scaled limits. A burst of zero
// means the amount. A state or a lease of one is a state or a lease of the other.
func (l Limit) WithAmount(amount, burst int64) (Limit, error) {
	if amount < MinAmount || amount > MaxAmount {
		return Limit{}, fmt.Errorf("amount must be between %d and %d (2^40), got %d", MinAmount,
			int64(MaxAmount), amount)
	}
	l.amount, l.capacity = amount, amount
	if burst == 0 {
		burst = amount
	} else if l.algorithm != TokenBucket {
		return Limit{}, fmt.Errorf("a burst belongs to a token bucket, not to %v", l.algorithm)
	}
	if l.algorithm != TokenBucket {
		return l, nil
	}
	if burst < 1 || burst > MaxAmount {
		return Limit{}, fmt.Errorf("burst must be between 1 and %d (2^40), got %d", int64(MaxAmount), burst)
	}
	l.capacity = burst
	if refill := l.refillTime(burst, 0); refill > int64(MaxRefill) {
		return Limit{}, fmt.Errorf(
			"a burst of %d at %d per %v takes over 100 years to refill; expected a smaller burst or a shorter window", burst, amount, time.Duration(l.window))
	}
	return l, nil
}

// Scale returns the limit with its amount and burst multiplied by percent/100, rounded up and at
// least 1. A percentage outside 1 to 100 is replaced by the nearer of the two.
func (l Limit) Scale(percent int) Limit {
	p := int64(min(max(percent, 1), 100))
	l.amount = (l.amount*p + 99) / 100
	l.capacity = (l.capacity*p + 99) / 100
	return l
}

// Raise returns the limit with its amount and burst multiplied by percent/100, at least 1, each rounded up and
// at least 1. The factor is lower if they would be more than [MaxAmount], and the burst is rounded down where a
// bucket would otherwise take longer to refill: what keeps its counts need not keep them longer.
func (l Limit) Raise(percent int) Limit {
	p := min(max(int64(percent), 1), MaxAmount*100/max(l.amount, l.capacity))
	r := l
	r.amount, r.capacity = (l.amount*p+99)/100, (l.capacity*p+99)/100
	if r.Retention() > l.Retention() {
		r.capacity--
	}
	return r
}

// Less returns the limit with its amount and burst less some units, each at least 1.
func (l Limit) Less(units int64) Limit {
	l.amount, l.capacity = max(l.amount-units, 1), max(l.capacity-units, 1)
	return l
}

// Times returns the limit of n keys together: n times its amount and burst, each at most
// [MaxAmount].
func (l Limit) Times(n int64) (Limit, error) {
	amount, burst := times(l.amount, n), int64(0)
	if l.algorithm == TokenBucket {
		burst = times(l.capacity, n)
	}
	return l.WithAmount(amount, burst)
}

// times multiplies units by n, up to MaxAmount.
func times(units, n int64) int64 {
	return min(units*n, MaxAmount)
}

// Share returns the share of one of n processes, counted from 0, in percent of the limit. It is at
// least 1. So the shares of all processes add up to percent of the limit, rounded down, or to n if
// that is more.
func (l Limit) Share(percent, process, n int) Limit {
	l.amount = shareOf(l.amount, percent, process, n)
	l.capacity = shareOf(l.capacity, percent, process, n)
	return l
}

// shareOf divides percent of some units among n processes. The first ones get the remainder.
func shareOf(units int64, percent, process, n int) int64 {
	whole := units * int64(min(max(percent, 1), 100)) / 100
	part := whole / int64(n)
	if int64(process) < whole%int64(n) {
		part++
	}
	return max(part, 1)
}

// Retention returns how long after a claim its effect on the state may matter: granted units may be
// charged ahead, and spent late. A token bucket also remembers what it owes.
func (l Limit) Retention() time.Duration {
	if l.algorithm == TokenBucket {
		return 2 * max(l.Refill(l.capacity), time.Duration(l.window)) // of the burst, and of what is owed
	}
	return time.Duration(2*l.window + l.width)
}

// Refill returns how long a token bucket takes to refill units, rounded up. It is for token buckets
// only.
func (l Limit) Refill(units int64) time.Duration { return time.Duration(l.refillTime(units, 0)) }

// Algorithm returns how the limit forgets units.
func (l Limit) Algorithm() Algorithm { return l.algorithm }

// Amount returns the number of units per window.
func (l Limit) Amount() int64 { return l.amount }

// Window returns the time the amount is counted over.
func (l Limit) Window() time.Duration { return time.Duration(l.window) }

// Capacity returns the most units that can be in use at once: the burst of a
// token bucket, else the amount. A cost above it can never pass.
func (l Limit) Capacity() int64 { return l.capacity }

// MostOwed returns the most units that may be charged beyond those that are free: the amount, or the
// burst of a token bucket if that is more. A key that owes them is refused for about a window.
func (l Limit) MostOwed() int64 { return max(l.amount, l.capacity) }

// MaxLate returns how many units a grant may have that is charged [Limit.MaxAhead] slots ahead: a 64th
// of the amount. Spent units are moved to their slot when the lease is given back, so until then they
// may be forgotten late.
func (l Limit) MaxLate() int64 { return l.amount / lateShare }

// addSaturating adds two non-negative numbers and stops at the largest int64.
func addSaturating(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
