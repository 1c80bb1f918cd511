package limiter

import (
	"math"
	"math/bits"
)

// A rate is the speed at which a token bucket refills, and its used units drain: amount units per
// window. A quantity is a number of units and a part, which is 1/window of a unit.
//
// Invariants: amount and window are at least 1. If the arguments of a method have 0 ≤ part <
// window, so has the quantity that it returns. All arithmetic is exact, or ends at the largest
// int64.
type rate struct {
	amount int64
	window int64 // nanoseconds
}

// less subtracts a quantity from another. The result is at least zero.
func (r *rate) less(units, part, byUnits, byPart int64) (int64, int64) {
	if byUnits > units || (byUnits == units && byPart >= part) {
		return 0, 0
	}
	units, part = units-byUnits, part-byPart
	if part < 0 {
		units, part = units-1, part+r.window
	}
	return units, part
}

// plus adds two quantities.
func (r *rate) plus(units, part, byUnits, byPart int64) (int64, int64) {
	units, part = units+byUnits, part+byPart
	if part >= r.window {
		units, part = units+1, part-r.window
	}
	return units, part
}

// lesser returns the lesser of two quantities.
func lesser(units, part, otherUnits, otherPart int64) (int64, int64) {
	if otherUnits < units || (otherUnits == units && otherPart < part) {
		return otherUnits, otherPart
	}
	return units, part
}

// whole returns units, rounded up if there is a part.
func whole(units, part int64) int64 {
	if part > 0 {
		return addSaturating(units, 1)
	}
	return units
}

// refilled returns the quantity that drains in elapsed nanoseconds. A number that does not fit
// becomes the largest int64.
func (r *rate) refilled(elapsed int64) (units, part int64) {
	hi, lo := bits.Mul64(uint64(elapsed), uint64(r.amount))
	if hi >= uint64(r.window) {
		return math.MaxInt64, 0
	}
	q, rest := bits.Div64(hi, lo, uint64(r.window))
	if q > math.MaxInt64 {
		return math.MaxInt64, 0
	}
	return int64(q), int64(rest)
}

// refillTime returns the nanoseconds in which units and part drain, rounded up.
func (r *rate) refillTime(units, part int64) int64 {
	nanos, exact := r.drainTime(units, part)
	if !exact && nanos < math.MaxInt64 {
		nanos++
	}
	return nanos
}

// drainTime returns the nanoseconds in which at most units and part drain. exact reports whether
// they drain in exactly that time.
func (r *rate) drainTime(units, part int64) (nanos int64, exact bool) {
	hi, lo := bits.Mul64(uint64(units), uint64(r.window))
	lo, carry := bits.Add64(lo, uint64(part), 0)
	hi += carry
	if hi >= uint64(r.amount) {
		return math.MaxInt64, false
	}
	q, rest := bits.Div64(hi, lo, uint64(r.amount))
	return int64(min(q, math.MaxInt64)), rest == 0
}
