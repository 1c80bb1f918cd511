package limiter_test

import (
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// An oracle decides like a limit, slowly: it keeps a log of all charges, and reads all of it every
// time. It gets the limit as [limiter.Params], shares no formula with the package, and calculates
// with unbounded numbers.
type oracle interface {
	// charge notes units charged at a time.
	charge(p limiter.Params, at, units int64)
	// used returns the units in use at a time.
	used(p limiter.Params, now int64) *big.Rat
	// changes returns the times after now, in order, at which units are forgotten so that cost
	// units may become free. The last of them is certainly late enough.
	changes(p limiter.Params, now, cost int64) []*big.Int
}

func newOracle(p limiter.Params) oracle {
	switch p.Algorithm {
	case limiter.Fixed:
		return &fixedOracle{}
	case limiter.TokenBucket:
		return &bucketOracle{level: new(big.Rat), at: math.MinInt64}
	}
	return &slidingOracle{}
}

// capacityOf returns the most units that can be in use at once.
func capacityOf(p limiter.Params) int64 {
	if p.Algorithm == limiter.TokenBucket && p.Burst != 0 {
		return p.Burst
	}
	return p.Amount
}

// admits reports whether cost units are free at now.
func admits(o oracle, p limiter.Params, now, cost int64) bool {
	sum := new(big.Rat).SetInt64(cost)
	sum.Add(sum, o.used(p, now))
	return sum.Cmp(new(big.Rat).SetInt64(capacityOf(p))) <= 0
}

// freeAt returns the whole units that are free at now, never below zero.
func freeAt(o oracle, p limiter.Params, now int64) int64 {
	left := new(big.Rat).SetInt64(capacityOf(p))
	left.Sub(left, o.used(p, now))
	if left.Sign() < 0 {
		return 0
	}
	return new(big.Int).Div(left.Num(), left.Denom()).Int64()
}

// waitFor returns how long to wait from now until cost units are free.
func waitFor(o oracle, p limiter.Params, now, cost int64) time.Duration {
	if cost > capacityOf(p) {
		return limiter.Never
	}
	for _, at := range o.changes(p, now, cost) {
		wait := new(big.Int).Sub(at, big.NewInt(now))
		if !wait.IsInt64() {
			return math.MaxInt64
		}
		if !at.IsInt64() || admits(o, p, at.Int64(), cost) {
			return time.Duration(wait.Int64())
		}
	}
	panic("the oracle's last change is not late enough")
}

// partOf returns the index of the part of time that contains at. Parts have equal widths and are
// counted from the epoch.
func partOf(at, width int64) int64 {
	return new(big.Int).Div(big.NewInt(at), big.NewInt(width)).Int64() // Euclidean: floors
}

// logged is a number of units charged in a span of time from first to last, both included. Their
// distribution in it is unknown.
type logged struct {
	part, last int64
	units      int64
}

// slidingOracle: the units of a slot count while any instant of the slot lies in (now-window, now].
type slidingOracle struct{ log []logged }

// slotCount is the documented number of slots.
func slotCount(p limiter.Params) int64 {
	if p.Slots != 0 {
		return int64(p.Slots)
	}
	return 60
}

// slotWidth is the window's share of time for a slot, in whole nanoseconds that
// are enough to cover the window.
func slotWidth(p limiter.Params) int64 {
	width := int64(p.Window) / slotCount(p)
	for width*slotCount(p) < int64(p.Window) {
		width++
	}
	return width
}

func (o *slidingOracle) charge(p limiter.Params, at, units int64) {
	if units <= 0 {
		return
	}
	part := partOf(at, slotWidth(p))
	o.log = append(o.log, logged{part, (part+1)*slotWidth(p) - 1, units})
}

// ahead reports whether units were charged so far ahead of now that they are considered damaged:
// more than a window's number of slots, and three quarters of it, by which a lease may be charged
// ahead.
func (o *slidingOracle) ahead(p limiter.Params, now int64) bool {
	return slices.ContainsFunc(o.log, func(c logged) bool { return c.isAhead(p, now) })
}

func (l logged) isAhead(p limiter.Params, now int64) bool {
	return l.part > partOf(now, slotWidth(p))+slotCount(p)+3*slotCount(p)/4
}

func (o *slidingOracle) used(p limiter.Params, now int64) *big.Rat {
	sum := new(big.Int)
	for _, c := range o.log {
		if c.last <= now-int64(p.Window) || c.isAhead(p, now) {
			continue
		}
		sum.Add(sum, big.NewInt(c.units))
	}
	return new(big.Rat).SetInt(sum)
}

func (o *slidingOracle) changes(p limiter.Params, now, _ int64) (at []*big.Int) {
	for _, c := range o.log {
		if forgotten := c.last + int64(p.Window); forgotten > now {
			at = append(at, big.NewInt(forgotten))
		}
	}
	slices.SortFunc(at, (*big.Int).Cmp)
	return at
}

// fixedOracle: charged units count to the end of their aligned window.
type fixedOracle struct{ log []logged }

func (o *fixedOracle) charge(p limiter.Params, at, units int64) {
	if units <= 0 {
		return
	}
	part := partOf(at, int64(p.Window))
	o.log = append(o.log, logged{part, (part+1)*int64(p.Window) - 1, units})
}

func (o *fixedOracle) ahead(p limiter.Params, now int64) bool {
	return slices.ContainsFunc(o.log, func(c logged) bool { return c.part > partOf(now, int64(p.Window))+1 })
}

// The window after this one counts as well: its writer has a faster clock.
func (o *fixedOracle) used(p limiter.Params, now int64) *big.Rat {
	sum := new(big.Int)
	for _, c := range o.log {
		if ahead := c.part - partOf(now, int64(p.Window)); ahead == 0 || ahead == 1 {
			sum.Add(sum, big.NewInt(c.units))
		}
	}
	return new(big.Rat).SetInt(sum)
}

func (o *fixedOracle) changes(_ limiter.Params, now, _ int64) (at []*big.Int) {
	for _, c := range o.log {
		if c.last+1 > now {
			at = append(at, big.NewInt(c.last+1))
		}
	}
	slices.SortFunc(at, (*big.Int).Cmp)
	return at
}

// bucketOracle: a vessel that every unit fills, and that drains evenly, at the rate in force when
// it is read.
type bucketOracle struct {
	level *big.Rat
	at    int64 // of level
}

func (o *bucketOracle) rate(p limiter.Params) *big.Rat { return big.NewRat(p.Amount, int64(p.Window)) }

// ahead reports whether the level's time is so far ahead of now that it is considered damaged: by
// more than a minute, a window and the time to refill.
func (o *bucketOracle) ahead(p limiter.Params, now int64) bool {
	lead := new(big.Int).Sub(big.NewInt(o.at), big.NewInt(now))
	refill := new(big.Rat).SetInt64(capacityOf(p))
	refill.Quo(refill, o.rate(p))
	return lead.Cmp(big.NewInt(60e9)) > 0 && lead.Cmp(big.NewInt(int64(p.Window))) > 0 && new(big.Rat).SetInt(lead).Cmp(ceil(refill)) > 0
}

func ceil(r *big.Rat) *big.Rat {
	whole, rest := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return new(big.Rat).SetInt(whole)
}

// used is the level. If its time is later, used adds the units that drain until then, for at most
// two seconds, and at most a 16th of the bucket.
func (o *bucketOracle) used(p limiter.Params, now int64) *big.Rat {
	used := o.left(p, now)
	if lead := new(big.Int).Sub(big.NewInt(o.at), big.NewInt(now)); lead.Sign() > 0 && !o.ahead(p, now) {
		drains := new(big.Rat).SetInt(lead)
		for _, most := range []*big.Rat{new(big.Rat).SetInt64(2e9), ceil(new(big.Rat).Quo(new(big.Rat).SetInt64(capacityOf(p)/16), o.rate(p)))} {
			if drains.Cmp(most) > 0 {
				drains = most
			}
		}
		used.Add(used, drains.Mul(drains, o.rate(p)))
	}
	return used
}

// left returns the rest of the level at now, which is the level before its time.
func (o *bucketOracle) left(p limiter.Params, now int64) *big.Rat {
	if o.ahead(p, now) {
		return new(big.Rat)
	}
	if o.at > now {
		return new(big.Rat).Set(o.level)
	}
	drained := new(big.Rat).SetInt(new(big.Int).Sub(big.NewInt(now), big.NewInt(o.at)))
	drained.Mul(drained, o.rate(p))
	left := new(big.Rat).Sub(o.level, drained)
	if left.Sign() < 0 {
		return new(big.Rat)
	}
	return left
}

func (o *bucketOracle) charge(p limiter.Params, at, units int64) {
	if units <= 0 {
		return
	}
	o.level = o.left(p, at)
	if o.at < at || o.ahead(p, at) {
		o.at = at
	}
	o.level.Add(o.level, new(big.Rat).SetInt64(units))
}

func (o *bucketOracle) changes(p limiter.Params, _, cost int64) []*big.Int {
	over := new(big.Rat).SetInt64(cost - capacityOf(p))
	over.Add(over, o.level)
	at := ceil(over.Quo(over, o.rate(p))).Num()
	return []*big.Int{new(big.Int).Add(at, big.NewInt(o.at))}
}

// admitted is a number of admitted units, under the limit then in force.
type admitted struct {
	at, units     int64
	amount, burst int64
}

// promise is the documented bound, and nothing else: it knows of no slot, no rounding and no order
// of forgetting.
type promise struct {
	p   limiter.Params
	log []admitted
}

// look notes that a bucket was brought to a time, at the rate then in force.
func (pr *promise) look(p limiter.Params, at int64) {
	if p.Algorithm == limiter.TokenBucket {
		pr.log = append(pr.log, admitted{at, 0, p.Amount, capacityOf(p)})
	}
}

func (pr *promise) admit(p limiter.Params, at, units int64) {
	if units > 0 {
		pr.log = append(pr.log, admitted{at, units, p.Amount, capacityOf(p)})
	}
}

// broken returns an interval in which more units than promised were admitted, or false. If the
// amount changed, the largest within the interval counts.
func (pr *promise) broken() (from, to, got int64, bad bool) {
	if pr.p.Algorithm == limiter.TokenBucket {
		return pr.brokenBucket()
	}
	for _, end := range pr.log {
		var sum, most int64
		first := end.at - int64(pr.p.Window) + 1 // (end-window, end]
		last := end.at
		if pr.p.Algorithm == limiter.Fixed {
			first = partOf(end.at, int64(pr.p.Window)) * int64(pr.p.Window)
			last = first + int64(pr.p.Window) - 1
		}
		for _, a := range pr.log {
			if a.at >= first && a.at <= last {
				sum += a.units
				most = max(most, a.amount)
			}
		}
		if sum > most {
			return first, last, sum, true
		}
	}
	return 0, 0, 0, false
}

// brokenBucket needs a log in the order of time.
func (pr *promise) brokenBucket() (from, to, got int64, bad bool) {
	for i, first := range pr.log {
		var sum, amount, burst int64
		for _, a := range pr.log[i:] {
			sum += a.units
			amount, burst = max(amount, a.amount), max(burst, a.burst)
			if sum <= burst {
				continue
			}
			over := new(big.Int).Mul(big.NewInt(sum-burst), big.NewInt(int64(pr.p.Window)))
			refilled := new(big.Int).Mul(big.NewInt(a.at-first.at), big.NewInt(amount))
			if over.Cmp(refilled) > 0 {
				return first.at, a.at, sum, true
			}
		}
	}
	return 0, 0, 0, false
}
