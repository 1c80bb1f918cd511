package limiter_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// FuzzLease compares the units that several holders of one key spend from leases with the promise,
// and checks that a single holder loses nothing.
func FuzzLease(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) { checkLeases(t, data) })
}

func TestLeaseRandom(t *testing.T) { runRandom(t, proof.Times(1000, 3000), checkLeases) }

// leases is one run of FuzzLease.
type leases struct {
	testing.TB
	p       limiter.Params
	limit   limiter.Limit
	state   limiter.State
	now     int64
	oracle  oracle // of the spent units
	promise promise
	holders []holder
	prompt  bool           // one holder, which joins a grant at once
	tidy    bool           // and returns its lease with every claim, and does nothing else
	plain   bool           // and keeps nothing except granted leases
	mishaps bool           // rare things happen
	changes bool           // the amount changes
	ahead   bool           // grants are charged ahead if possible
	most    limiter.Params // the largest amount and burst so far
}

// holder is a process. As in the engine, a lease on its way back, or a grant on its way here, is
// kept beside the one in use, which remains the known state of the key.
type holder struct {
	lease   limiter.Lease
	granted []limiter.Lease // not joined yet
	back    []limiter.Lease // to be given back
	split   bool            // its units were in two places, and drained in both
}

func checkLeases(t testing.TB, data []byte) {
	s := &source{data}
	p := s.params()
	r := &leases{TB: t, p: p, limit: mustNew(t, p), oracle: newOracle(p), promise: promise{p: p}}
	r.now = s.start(p)
	r.holders = make([]holder, 1+s.pick(4))
	single := len(r.holders) == 1
	r.prompt = single && s.pick(4) != 0
	r.tidy = r.prompt && s.pick(2) != 0
	r.plain = r.tidy && s.pick(2) != 0
	r.mishaps = !r.tidy && s.pick(2) != 0
	r.changes = s.pick(4) == 0
	r.ahead = s.pick(2) == 0
	r.most = limiter.Params{Algorithm: p.Algorithm, Amount: p.Amount, Burst: capacityOf(p)}
	for steps := 0; s.more() && steps < 100; steps++ {
		r.now = onClock(r.now, s.step(p))
		if r.changes && s.pick(8) == 0 {
			r.change(s)
		}
		r.step(s, &r.holders[s.pick(len(r.holders))])
		r.fits()
		if r.tidy {
			r.quota(&r.holders[0])
		}
	}
	// The units spent from a bucket's leases keep the promise for one rate only: see the package
	// documentation.
	oneRate := !r.changes || p.Algorithm != limiter.TokenBucket
	if from, to, got, bad := r.promise.broken(); bad && oneRate {
		r.Fatalf("%+v: %d units spent from %d to %d\n%+v", p, got, from, to, r.promise.log)
	}
	if r.prompt {
		r.lostNothing(&r.holders[0])
	}
}

func (le *leases) change(s *source) {
	s.amount(&le.p)
	l, err := le.limit.WithAmount(le.p.Amount, le.p.Burst)
	if err != nil {
		le.Fatalf("WithAmount(%d, %d): %v", le.p.Amount, le.p.Burst, err)
	}
	le.limit = l
	le.most.Amount = max(le.most.Amount, le.p.Amount)
	le.most.Burst = max(le.most.Burst, capacityOf(le.p))
}

func (le *leases) step(s *source, h *holder) {
	switch s.pick(8) {
	case 0, 1:
		le.spend(h, s.cost(le.limit.Capacity(), h.lease.Worth(&le.limit, le.now)))
	case 2:
		le.back(h)
	case 3:
		le.mishap(s, h)
	case 4:
		le.join(h)
	default:
		le.claim(s, h)
	}
}

// mishap does the same as an engine in rare cases.
func (le *leases) mishap(s *source, h *holder) {
	switch n := len(h.back); {
	case !le.mishaps:
	case s.pick(4) == 0 && !le.prompt: // a crash
		*h = holder{}
	case n > 0: // a returned lease got lost on its way
		lease := h.back[n-1]
		h.back = h.back[:n-1]
		if back := h.lease.Join(&le.limit, lease); back.Units > 0 {
			h.back = append(h.back, back)
		}
	default: // part of the lease is not needed
		part := h.lease
		part.Units, part.HeldPart = s.upTo(max(part.Units, 0)), 0
		if le.p.Algorithm != limiter.TokenBucket {
			part.Spent = 0 // it stays with the rest
		}
		h.lease.Units -= part.Units
		h.lease.Used -= part.Units
		h.back = append(h.back, part)
		h.split = true
	}
}

// take takes the lease out of a holder, for giving it back.
func (le *leases) take(h *holder) limiter.Lease {
	lease := h.lease.Take(&le.limit)
	if h.lease.Holds() || h.lease.Used > lease.Used {
		le.Fatalf("%+v: %+v is taken, and leaves %+v", le.p, lease, h.lease)
	}
	if le.plain {
		h.lease = limiter.Lease{}
	}
	return lease
}

// claim claims units, mostly with a returned lease.
func (le *leases) claim(s *source, h *holder) {
	least := s.cost(le.limit.Capacity(), freeAt(le.oracle, le.p, le.now))
	c := limiter.Claim{Now: le.now, Min: least, Want: least}
	switch s.pick(4) {
	case 0:
		c.Want += s.upTo(4 * least)
	case 1:
		c.Min = s.upTo(least)
	}
	c.Extra = s.upTo(le.limit.Capacity())
	if le.ahead {
		c.Ahead = s.upTo(le.limit.Slots())
		c.Lasts = s.upTo(2 * le.limit.MaxLasts())
	}
	if s.pick(4) == 0 {
		c.Processes = s.upTo(40)
	}
	c.Spread = le.ahead && s.pick(2) == 0
	if late := le.limit.MaxLate(); le.ahead && late > 0 && s.pick(2) == 0 { // few enough for it
		c.Want = min(c.Want, late)
		c.Min, c.Extra = min(c.Min, c.Want), 1+s.upTo(late-1)
	}
	if le.tidy || s.pick(2) == 0 {
		c.Return = le.take(h)
	}
	before := cloneState(le.state)
	g := le.limit.Claim(&le.state, c)
	le.checkGrant(before, c, g)
	h.granted = append(h.granted, g.Lease)
	if le.prompt || s.pick(3) != 0 {
		le.join(h)
		if c.Min > 0 && g.Units >= c.Min {
			le.spend(h, c.Min)
		}
	}
}

func (le *leases) checkGrant(before limiter.State, c limiter.Claim, g limiter.Grant) {
	le.Helper()
	switch {
	case g.Units < 0 || g.Units > le.limit.Capacity() || g.Units > max(c.Want, c.Min)+c.Extra:
		le.Fatalf("%+v: claim %+v on %+v was granted %+v", le.p, c, before, g)
	case g.Units > 0 && g.Units < c.Min:
		le.Fatalf("%+v: claim %+v on %+v was granted less than the least: %+v", le.p, c, before, g)
	case g.Units > g.Used:
		le.Fatalf("%+v: claim %+v on %+v: more is granted than used: %+v", le.p, c, before, g)
	case g.Refused(c):
		again := c
		again.Return = limiter.Lease{}
		checkRetry(le, le.limit, cloneState(le.state), again, g)
	case g.Retry != 0:
		le.Fatalf("%+v: claim %+v on %+v was not refused, and has a Retry: %+v", le.p, c, before, g)
	}
}

// join joins the last grant, so that several are joined out of order.
func (le *leases) join(h *holder) {
	if n := len(h.granted); n > 0 {
		back := h.lease.Join(&le.limit, h.granted[n-1])
		h.granted = h.granted[:n-1]
		if back.Units > 0 {
			h.back = append(h.back, back)
		}
	}
}

// back gives back the leases that a holder no longer holds, or all.
func (le *leases) back(h *holder) {
	back := append(h.back, le.take(h))
	for _, ls := range back {
		before := cloneState(le.state)
		c := limiter.Claim{Now: le.now, Return: ls}
		g := le.limit.Claim(&le.state, c)
		le.checkGrant(before, c, g)
		if le.plain {
			h.lease = g.Lease
		}
	}
	h.back = nil
	if le.prompt && le.inUse().Sign() == 0 {
		h.split = false
	}
}

func (le *leases) spend(h *holder, cost int64) {
	le.Helper()
	before := h.lease
	worth := before.Worth(&le.limit, le.now)
	if worth < 0 || worth > max(before.Units, 0) {
		le.Fatalf("%+v at %d: lease %+v is worth %d", le.p, le.now, before, worth)
	}
	if got := h.lease.Spend(&le.limit, le.now, cost); got != (cost <= max(worth, 0)) {
		le.Fatalf("%+v at %d: lease %+v is worth %d, spending %d: %v", le.p, le.now, before, worth, cost, got)
	} else if !got {
		if h.lease != before {
			le.Fatalf("%+v at %d: lease %+v is %+v after it was not spent", le.p, le.now, before, h.lease)
		}
		return
	}
	if after := h.lease.Worth(&le.limit, le.now); after != worth-max(cost, 0) {
		le.Fatalf("%+v at %d: lease %+v is worth %d, and %d after spending %d", le.p, le.now, before, worth, after, cost)
	}
	if le.tidy && le.p.Algorithm != limiter.TokenBucket && !admits(le.oracle, le.p, le.now, cost) && cost > 0 {
		le.Fatalf("%+v at %d: spent %d of %+v, and %v were spent before", le.p, le.now, cost, before, le.oracle.used(le.p, le.now))
	}
	le.oracle.charge(le.p, le.now, cost)
	le.promise.admit(le.most, le.now, cost)
}

// fits checks that all leases can be spent at once: together with the remembered spent units they
// fit into the limit.
func (le *leases) fits() {
	le.Helper()
	if le.changes {
		return
	}
	worth := new(big.Rat)
	for _, h := range le.holders {
		for _, ls := range append(append([]limiter.Lease{h.lease}, h.granted...), h.back...) {
			w := ls.Worth(&le.limit, le.now)
			worth.Add(worth, new(big.Rat).SetInt64(w))
		}
	}
	spent := le.oracle.used(le.p, le.now)
	if sum := new(big.Rat).Add(worth, spent); sum.Cmp(new(big.Rat).SetInt64(le.limit.Capacity())) > 0 {
		le.Fatalf("%+v at %d: leases are worth %v, and %v are spent\n%+v\n%+v", le.p, le.now, worth, spent, le.holders, le.state)
	}
	if le.p.Algorithm == limiter.TokenBucket {
		le.fitsBucket(spent)
		return
	}
	for ahead := range int64(8) {
		le.remembers(onClock(le.now, ahead*int64(le.p.Window)/7))
	}
}

// remembers checks that the state remembers all spent units at a later time, and those that leases
// are then worth.
func (le *leases) remembers(at int64) {
	le.Helper()
	want := le.oracle.used(le.p, at)
	for _, h := range le.holders {
		for _, ls := range append(append([]limiter.Lease{h.lease}, h.granted...), h.back...) {
			want.Add(want, new(big.Rat).SetInt64(ls.Worth(&le.limit, at)))
		}
	}
	probe := cloneState(le.state)
	g := le.limit.Claim(&probe, limiter.Claim{Now: at})
	if want.Cmp(new(big.Rat).SetInt64(g.Used)) > 0 {
		le.Fatalf("%+v at %d: as of %d %v are spent or can be, and only %d are in use\n%+v\n%+v", le.p, le.now, at, want, g.Used, le.holders, le.state)
	}
}

// fitsBucket checks that the bucket remembers all spent units and all units in leases, to the last
// part.
func (le *leases) fitsBucket(spent *big.Rat) {
	le.Helper()
	held := new(big.Rat)
	for _, h := range le.holders {
		for _, ls := range append(append([]limiter.Lease{h.lease}, h.granted...), h.back...) {
			held.Add(held, le.held(ls))
		}
	}
	if used := le.inUse(); used.Cmp(new(big.Rat).Add(held, spent)) < 0 {
		le.Fatalf("%+v at %d: %v are held and %v are spent, and only %v in use\n%+v\n%+v", le.p, le.now, held, spent, used, le.holders, le.state)
	}
}

// held returns the rest of a bucket's lease after its spent units have drained.
func (le *leases) held(ls limiter.Lease) *big.Rat {
	left := le.parts(ls.Units, ls.HeldPart)
	drained := new(big.Rat).SetInt(new(big.Int).Sub(big.NewInt(le.now), big.NewInt(ls.At)))
	drained.Mul(drained, big.NewRat(le.p.Amount, int64(le.p.Window)))
	drained.Sub(drained, le.parts(ls.Spent, ls.SpentPart))
	if drained.Sign() > 0 {
		left.Sub(left, drained)
	}
	if left.Sign() < 0 {
		return new(big.Rat)
	}
	return left
}

// parts returns units, and parts of one.
func (le *leases) parts(units, part int64) *big.Rat {
	sum := new(big.Rat).SetInt64(units)
	return sum.Add(sum, big.NewRat(part, int64(le.p.Window)))
}

// lostNothing gives back the leases of a single holder, and checks that only its spent units are
// charged, to the last part of a unit, and none ahead if it gave back with every claim.
func (le *leases) lostNothing(h *holder) {
	le.Helper()
	le.back(h)
	if le.p.Algorithm == limiter.TokenBucket && (le.changes || h.split) {
		return // the oracle drains at another rate, or the split lease drained twice
	}
	for _, slot := range le.state.Slots {
		if le.tidy && slot.Used > 0 && slot.Index > le.limit.Slot(le.now) {
			le.Fatalf("%+v at %d: everything is given back, and %d are charged ahead: %+v", le.p, le.now, slot.Used, le.state)
		}
	}
	// Units charged ahead count from the time of their return, or their slot's.
	if got, want := le.inUse(), le.oracle.used(le.p, le.now); got.Cmp(want) < 0 || got.Cmp(want) > 0 && !le.ahead {
		le.Fatalf("%+v at %d: everything is given back, and %v are in use, not %v: %+v", le.p, le.now, got, want, le.state)
	}
}

// inUse returns the units in use of the state.
func (le *leases) inUse() *big.Rat {
	probe := cloneState(le.state)
	g := le.limit.Claim(&probe, limiter.Claim{Now: le.now})
	used := le.parts(g.Used, g.Part)
	if lead := g.At - le.now; le.p.Algorithm == limiter.TokenBucket && lead > 0 { // leases last that long
		used.Add(used, new(big.Rat).Mul(big.NewRat(le.p.Amount, int64(le.p.Window)), new(big.Rat).SetInt64(lead)))
	}
	return used
}

// quota checks the quota of a key with a single holder.
func (le *leases) quota(h *holder) {
	le.Helper()
	q := h.lease.Quota(&le.limit, le.now)
	left := freeAt(le.oracle, le.p, le.now)
	reset := le.reset()
	exact := q == limiter.Quota{Remaining: left, Reset: reset}
	switch {
	case le.p.Algorithm == limiter.TokenBucket && le.changes:
		exact = true // the oracle drains at another rate
	case le.p.Algorithm == limiter.TokenBucket && le.ahead:
		// A lease that lasts knows the usage at its end, and its spent units drain from then on.
		lasts := new(big.Rat).Mul(big.NewRat(le.p.Amount, int64(le.p.Window)), new(big.Rat).SetInt64(le.limit.MaxLasts()))
		most := ceil(lasts).Num().Int64() + left
		exact = q.Remaining <= most && q.Remaining >= 0 && q.Reset >= reset
	case le.p.Algorithm == limiter.Sliding:
		// It does not know which slots before the last were used.
		exact = q.Remaining <= left && q.Remaining >= 0 && q.Reset >= reset && q.Reset <= max(reset, le.p.Window+time.Duration(slotWidth(le.p)))
	}
	if !exact {
		le.Fatalf("%+v at %d: quota of %+v is %+v, want %d in %d", le.p, le.now, h.lease, q, left, reset)
	}
}

// reset returns how long it takes until all spent units are forgotten.
func (le *leases) reset() time.Duration {
	if le.oracle.used(le.p, le.now).Sign() == 0 {
		return 0
	}
	return waitFor(le.oracle, le.p, le.now, capacityOf(le.p))
}
