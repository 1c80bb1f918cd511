package limiter

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// TestEveryRun visits all states that a small limit, its leases and their two holders can reach, in runs of
// any length, by calling the functions of this package. Holders claim units of several shapes, with and
// without giving back, join grants, and spend unit after unit, as of the time of the state or ahead of it.
// In every state it checks that no more was admitted than "Never more than the limit" (docs/promises.md)
// says, and of every refusal that its retry time is exact: the claim is granted then if nobody else claims,
// and not a nanosecond earlier.
//
// Why runs of any length: what happens depends on times relative to the present one only. A state is moved
// back by whole slots, or by the steps of a bucket, and forgets what no longer counts. So there are
// finitely many, and all of them are visited.
//
// Why few times: the slots that count change at the beginning of a slot, and where the oldest one ends.
// Between these moments all times are alike to a sliding or fixed limit, except for the promise, which is
// checked for the times that are nearest to one another. Quantities of a bucket are exact, and linear in
// time between claims. Its steps are a half and a third of the time of a unit, so that there are parts.
//
// Why small numbers: the arithmetic compares sums of few quantities, and has no other numbers than those
// of a limit, of which each comparison is reached from both sides. Products of large numbers, where sizes
// do matter, are those of math/bits; TestClaimRandom and TestLeaseRandom use all sizes. A lease charged
// ahead needs 64 units, and one on a bucket that lasts needs 16: for these all runs of some length are tried.
func TestEveryRun(t *testing.T) {
	visited := 0
	explore := func(p Params, shapes []Claim, parts int64, events int) {
		p.Window += 180 * time.Millisecond
		l, err := New(p)
		if err != nil {
			t.Fatal(err)
		}
		visited += newExplorer(t, l, shapes, parts).explore(events)
	}
	most := proof.Times(3, 4)
	for amount := int64(1); amount <= int64(most); amount++ {
		for slots := 1; slots <= most && int(amount)+slots <= most+2; slots++ {
			explore(Params{Amount: amount, Slots: slots}, smallShapes, 0, 0)
			explore(Params{Amount: amount, Slots: slots, Window: 1}, smallShapes, 0, 0) // slots are longer than their part of it
		}
		explore(Params{Algorithm: Fixed, Amount: amount}, smallShapes, 0, 0)
	}
	for _, parts := range []int64{2, 3} {
		for burst := int64(1); burst < int64(most); burst++ {
			explore(Params{Algorithm: TokenBucket, Amount: 1, Burst: burst}, smallShapes, parts, 0)
		}
		explore(Params{Algorithm: TokenBucket, Amount: 3, Burst: 2}, smallShapes, parts, 0)
	}
	events := proof.Times(7, 9)
	explore(Params{Amount: 64, Slots: 2}, []Claim{{}, {Min: 1, Want: 1, Extra: 1, Ahead: 1}, {Min: 61, Want: 61}}, 0, events)
	explore(Params{Algorithm: TokenBucket, Amount: 3, Burst: 16}, []Claim{{}, {Min: 1, Want: 1, Extra: 1, Lasts: maxLasts}, {Min: 7, Want: 7}}, 2, events)
	proof.Figure(t, "%d states", visited)
}

// smallShapes are claims, without their times and leases.
var smallShapes = []Claim{
	{}, // gives back only
	{Min: 1, Want: 1},
	{Min: 2, Want: 2},
	{Min: 1, Want: 3},
	{Min: 1, Want: 3, Ahead: 2, Spread: true},
}

// run is a state of a run: of a limit, of two holders, and of the promise.
type run struct {
	state   State
	phase   int // of the present slot, or of a bucket's step
	holders [2]runHolder
	log     [maxAge]uint8 // units admitted, by the age of their moment
	level   int64         // of a bucket: units admitted that have not drained, in parts
}

const (
	maxAge    = 12
	maxStates = 5_000_000
)

// runHolder has a lease, and another one that is to be given back.
type runHolder struct{ lease, back Lease }

// explorer visits the states of runs.
type explorer struct {
	*testing.T
	l      Limit
	shapes []Claim
	parts  int64           // of the time of a bucket's unit, which are its steps
	starts []int64         // of the phases, in a slot or step
	oldest []int           // by phase: the age of the oldest moment that is less than a window ago
	seen   map[string]bool // states
	next   []run           // states to go on from
	key    []byte
}

// origin is a slot, and a time of a bucket, far from the epoch.
const origin = 1000

func newExplorer(t *testing.T, l Limit, shapes []Claim, parts int64) *explorer {
	x := &explorer{T: t, l: l, shapes: shapes, parts: parts, seen: make(map[string]bool)}
	if !l.CountsSlots() {
		x.starts = []int64{0}
		return x
	}
	x.starts = []int64{0}
	if at := (l.window - 1) % l.width; at > 0 && !l.fixed {
		x.starts = append(x.starts, at)
	}
	for phase := range x.starts {
		age := 0
		for ; !l.fixed && x.start(phase, 0)-x.end(phase, age+1) < l.window; age++ {
		}
		if age >= maxAge {
			t.Fatalf("a window has %d moments, which is too many", age)
		}
		x.oldest = append(x.oldest, age)
	}
	return x
}

// start returns the beginning of the moment of an age in a phase of the present slot.
func (x *explorer) start(phase, age int) int64 {
	n := origin*len(x.starts) + phase - age
	return int64(n/len(x.starts))*x.l.width + x.starts[n%len(x.starts)]
}

// end returns the last nanosecond of that moment.
func (x *explorer) end(phase, age int) int64 { return x.start(phase, age-1) - 1 }

// explore visits the states of all runs, or of runs of at most so many events.
func (x *explorer) explore(events int) int {
	x.visit(run{})
	for n := 0; len(x.next) > 0 && (events == 0 || n < events) && !x.Failed(); n++ {
		now := x.next
		x.next = nil
		for _, r := range now {
			x.follow(r)
		}
		if len(x.seen) > maxStates {
			x.Fatalf("%v %d/%v: more than %d states, so there may be no end of them", x.l.Algorithm(), x.l.Amount(), x.l.Window(), maxStates)
		}
	}
	return len(x.seen)
}

// follow visits the states after a state.
func (x *explorer) follow(r run) {
	x.pass(r)
	for h := range r.holders {
		for _, shape := range x.shapes {
			x.claim(r, h, shape)
		}
		for _, at := range []int64{x.now(r.phase), x.later(r.phase)} {
			x.spend(r, h, at, 1)
			if worth := r.holders[h].lease.Worth(&x.l, at); worth > 1 {
				x.spend(r, h, at, worth)
			}
		}
	}
}

// now returns the time of a state in a phase.
func (x *explorer) now(phase int) int64 {
	if !x.l.CountsSlots() {
		return origin * x.l.window
	}
	return x.start(phase, 0)
}

// later returns the next time.
func (x *explorer) later(phase int) int64 {
	if !x.l.CountsSlots() {
		return x.now(phase) + x.step()
	}
	return x.start(phase, -1)
}

// step is the step of a bucket's time: a part of the time of a unit.
func (x *explorer) step() int64 { return x.l.window / x.l.amount / x.parts }

// visit notes a state, and goes on from it if it is new.
func (x *explorer) visit(r run) {
	now := x.now(r.phase)
	r.state.Slots = slices.DeleteFunc(slices.Clone(r.state.Slots), func(s Slot) bool { return s.Used == 0 || s.Index < x.l.Oldest(now) })
	for h := range r.holders {
		for _, ls := range []*Lease{&r.holders[h].lease, &r.holders[h].back} {
			if ls.isOver(&x.l, now) {
				*ls = Lease{}
			}
		}
	}
	if name := x.nameOf(&r); !x.seen[name] {
		x.seen[name] = true
		x.next = append(x.next, r)
	}
}

// isOver reports whether a lease has no effect any more.
func (ls *Lease) isOver(l *Limit, now int64) bool {
	if l.CountsSlots() {
		return ls.Units <= 0 && ls.Spent <= 0 || ls.At < l.Oldest(now)
	}
	return !ls.Holds() || ls.drained(l, now).Used == 0
}

func (x *explorer) nameOf(r *run) string {
	x.key = binary.AppendVarint(x.key[:0], int64(r.phase))
	x.key = binary.AppendVarint(x.key, r.level)
	x.key = append(x.key, r.log[:]...)
	for _, s := range r.state.Slots {
		x.key = binary.AppendVarint(binary.AppendVarint(x.key, s.Index), s.Used)
	}
	x.key = appendAll(x.key, r.state.Bucket.At, r.state.Bucket.Units, r.state.Bucket.Part)
	var holders [2][]byte // which are alike
	for i, h := range r.holders {
		for _, ls := range []Lease{h.lease, h.back} {
			holders[i] = appendAll(holders[i], ls.Units, ls.At, ls.Used, ls.Spent, ls.Span, ls.Lapsed, ls.Part, ls.HeldPart, ls.SpentPart)
		}
	}
	slices.SortFunc(holders[:], bytes.Compare)
	return string(append(append(x.key, holders[0]...), holders[1]...))
}

func appendAll(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.AppendVarint(b, n)
	}
	return b
}

// pass lets time pass until the next moment, and moves the state back by as much.
func (x *explorer) pass(r run) {
	if !x.l.CountsSlots() {
		r.level = max(r.level-x.step()*x.l.amount, 0)
		x.visit(r.moved(&x.l, x.step()))
		return
	}
	if r.phase++; r.phase == len(x.starts) {
		r.phase = 0
		r = r.moved(&x.l, 1)
	}
	copy(r.log[1:], r.log[:])
	r.log[0] = 0
	for age := range r.log {
		if age > x.oldest[r.phase] {
			r.log[age] = 0
		}
	}
	x.visit(r)
}

// moved returns a state moved back by slots, or by nanoseconds of a bucket.
func (r run) moved(l *Limit, by int64) run {
	r.state.Slots = slices.Clone(r.state.Slots)
	for i := range r.state.Slots {
		r.state.Slots[i].Index -= by
	}
	if r.state.Bucket != (Bucket{}) {
		if r.state.Bucket.At -= by; r.state.Bucket.drained(l, origin*l.window).inUse() == 0 {
			r.state.Bucket = Bucket{}
		}
	}
	for h := range r.holders {
		for _, ls := range []*Lease{&r.holders[h].lease, &r.holders[h].back} {
			if *ls != (Lease{}) {
				ls.At -= by
			}
		}
	}
	return r
}

// claim makes a holder claim, with each lease that it can give back.
func (x *explorer) claim(r run, holder int, c Claim) {
	c.Now = x.now(r.phase)
	x.claimWith(r, holder, c)
	if h := r.holders[holder]; h.back != (Lease{}) {
		c.Return, r.holders[holder].back = h.back, Lease{}
		x.claimWith(r, holder, c)
	} else if h.lease != (Lease{}) {
		c.Return = r.holders[holder].lease.Take(&x.l)
		x.claimWith(r, holder, c)
	}
}

func (x *explorer) claimWith(r run, holder int, c Claim) {
	r.state.Slots = slices.Clone(r.state.Slots)
	h := &r.holders[holder]
	g := x.l.Claim(&r.state, c)
	if g.Refused(c) {
		x.checkRetry(r, c)
	}
	if g.Units > 0 {
		back := h.lease.Join(&x.l, g.Lease)
		if back.Holds() {
			if h.back != (Lease{}) {
				return // it gives back one of them first
			}
			h.back = back
		}
	}
	x.visit(r)
}

// checkRetry checks the retry time of a claim that was refused, at the first and at the last nanosecond
// of the moment.
func (x *explorer) checkRetry(r run, c Claim) {
	c.Return = Lease{}
	for _, now := range []int64{c.Now, x.later(r.phase) - 1} {
		c.Now = now
		g := x.tried(r.state, c)
		if g.Retry == Never && c.Min > x.l.Capacity() {
			return
		}
		early, late := c, c
		early.Now, late.Now = now+int64(g.Retry)-1, now+int64(g.Retry)
		if g.Retry > 0 && (!x.tried(r.state, early).Refused(c) || x.tried(r.state, late).Refused(c)) || g.Retry <= 0 && g.Refused(c) {
			x.fail(r, fmt.Sprintf("claim %+v has the wrong retry time %v", c, g.Retry))
		}
	}
}

// tried returns the grant of a claim on a state, which stays as it is.
func (x *explorer) tried(s State, c Claim) Grant {
	s.Slots = slices.Clone(s.Slots)
	return x.l.Claim(&s, c)
}

// spend makes a holder spend a unit as of a time, and checks the promise.
func (x *explorer) spend(r run, holder int, at, units int64) {
	if !r.holders[holder].lease.Spend(&x.l, at, units) {
		return
	}
	if !x.l.CountsSlots() {
		if r.level += units * x.l.window; r.level > x.l.capacity*x.l.window {
			x.fail(r, "more is admitted than burst and refill")
		}
		x.visit(r)
		return
	}
	r.log[0] += uint8(units)
	sum := int64(0)
	for age := 0; age <= x.oldest[r.phase]; age++ {
		sum += int64(r.log[age])
	}
	if sum > x.l.amount {
		x.fail(r, fmt.Sprintf("%d are admitted in a window", sum))
	}
	x.visit(r)
}

func (x *explorer) fail(r run, what string) {
	x.Errorf("%v %d/%v, %d slots: %s: %+v", x.l.Algorithm(), x.l.Amount(), x.l.Window(), x.l.Slots(), what, r)
}
