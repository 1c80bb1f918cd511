package storagetest

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// call is a call of Claim in a history.
type call struct {
	claims []storage.Claim
	cells  []int           // of the claims
	grants []limiter.Grant // empty if the outcome is unknown
	now    int64           // the store's time of the call; 0 if that is unknown, too

	// The moments of the beginning and the end, in one order for all calls. A call whose outcome is
	// unknown took effect before its end, or never does.
	began, ended int64
}

// isKnown reports whether the call has taken effect.
func (c *call) isKnown() bool { return len(c.grants) > 0 }

// maxCalls is how many calls of a history are bits of a number.
const maxCalls = 64

// maxOrders bounds how many beginnings of orders are tried.
const maxOrders = 300_000

var errTooManyOrders = errors.New("the history has too many orders to try them all")

// orders looks for an order of atomic calls that explains a history.
type orders struct {
	calls  []call
	before [maxCalls]uint64 // by call: calls that have taken effect before it
	after  [maxCalls]uint64 // by call: calls that take effect after it
	first  int64            // the earliest and the latest known time
	last   int64
	rough  bool            // times of bucket charges are unknown
	failed map[string]bool // calls done, and the state after them, from which no order leads on
}

// isExplained reports whether there is an order of the calls such that each has the grants that the
// arithmetic of package limiter gives on what the calls before it have left. No call comes before one
// that had ended when it began. Calls whose outcome is unknown may be left out. The number of tried
// beginnings of orders is returned as well.
func isExplained(calls []call, cells int) (explained bool, tried int, err error) {
	if len(calls) > maxCalls {
		return false, 0, errTooManyOrders
	}
	o := &orders{calls: slices.Clone(calls), first: math.MaxInt64, failed: make(map[string]bool)}
	// likely orders first: known calls, in the order of their times
	slices.SortStableFunc(o.calls, func(a, b call) int {
		if a.isKnown() && b.isKnown() {
			return cmp.Compare(a.now, b.now)
		}
		return len(b.grants) - len(a.grants)
	})
	for i := range o.calls {
		c := &o.calls[i]
		if c.now != 0 {
			o.first, o.last = min(o.first, c.now), max(o.last, c.now)
		}
		o.rough = o.rough || !c.isKnown()
		for j := range o.calls {
			if d := &o.calls[j]; d.ended < c.began && d.isKnown() {
				o.before[i] |= 1 << j
			}
			if d := &o.calls[j]; c.ended < d.began {
				o.after[i] |= 1 << j
			}
		}
	}
	explained = o.search(0, make([]limiter.State, cells))
	if len(o.failed) >= maxOrders {
		return false, len(o.failed), errTooManyOrders
	}
	return explained, len(o.failed), nil
}

// search reports whether an order leads on from a state in which some calls are done.
func (o *orders) search(done uint64, states []limiter.State) bool {
	all := true
	for i := range o.calls {
		all = all && (done>>i&1 == 1 || !o.calls[i].isKnown())
	}
	if all {
		return true
	}
	seen := nameOf(done, states)
	if o.failed[seen] || len(o.failed) >= maxOrders {
		return false
	}
	for i := range o.calls {
		if done>>i&1 == 1 || o.before[i]&^done != 0 || o.after[i]&done != 0 {
			continue
		}
		for _, now := range o.timesOf(&o.calls[i]) {
			if next, ok := o.apply(&o.calls[i], now, states); ok && o.search(done|1<<i, next) {
				return true
			}
		}
	}
	o.failed[seen] = true
	return false
}

// timesOf returns the possible times of a call. A history is shorter than a slot, so the earliest and
// the latest are enough.
func (o *orders) timesOf(c *call) []int64 {
	if c.now != 0 {
		return []int64{c.now}
	}
	return []int64{o.first, o.last}
}

// apply returns the states after one more call, and whether it has its grants.
func (o *orders) apply(c *call, now int64, states []limiter.State) ([]limiter.State, bool) {
	states = slices.Clone(states)
	for i, claim := range c.claims {
		state := &states[c.cells[i]]
		state.Slots = slices.Clone(state.Slots)
		claim.Now = now
		grant := claim.Limit.Claim(state, claim.Claim)
		if c.isKnown() && !o.areSame(&claim.Limit, grant, c.grants[i]) {
			return nil, false
		}
	}
	return states, true
}

// areSame reports whether two grants are the same. If the times of charges are not all known, parts of
// units of a bucket aren't compared.
func (o *orders) areSame(l *limiter.Limit, a, b limiter.Grant) bool {
	if o.rough && !l.CountsSlots() {
		return a.Units == b.Units && a.Used-b.Used <= 1 && b.Used-a.Used <= 1
	}
	return a == b
}

// nameOf returns a name of calls done and the state after them.
func nameOf(done uint64, states []limiter.State) string {
	name := binary.AppendUvarint(nil, done)
	for _, s := range states {
		name = binary.AppendUvarint(name, uint64(len(s.Slots)))
		for _, slot := range s.Slots {
			name = binary.AppendVarint(binary.AppendVarint(name, slot.Index), slot.Used)
		}
		for _, n := range []int64{s.Bucket.At, s.Bucket.Units, s.Bucket.Part} {
			name = binary.AppendVarint(name, n)
		}
	}
	return string(name)
}
