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

func (r *leases) change(s *source) {
	s.amount(&r.p)
	l, err := r.limit.WithAmount(r.p.Amount, r.p.Burst)
	if err != nil {
		r.Fatalf("WithAmount(%d, %d): %v", r.p.Amount, r.p.Burst, err)
	}
	r.limit = l
	r.most.Amount = max(r.most.Amount, r.p.Amount)
	r.most.Burst = max(r.most.Burst, capacityOf(r.p))
}

func (r *leases) step(s *source, h *holder) {
	switch s.pick(8) {
	case 0, 1:
		r.spend(h, s.cost(r.limit.Capacity(), h.lease.Worth(&r.limit, r.now)))
	case 2:
		r.back(h)
	case 3:
		r.mishap(s, h)
	case 4:
		r.join(h)
	default:
		r.claim(s, h)
	}
}

// mishap does the same as an engine in rare cases.
func (r *leases) mishap(s *source, h *holder) {
	switch n := len(h.back); {
	case !r.mishaps:
	case s.pick(4) == 0 && !r.prompt: // a crash
		*h = holder{}
	case n > 0: // a returned lease got lost on its way
		lease := h.back[n-1]
		h.back = h.back[:n-1]
		if back := h.lease.Join(&r.limit, lease); back.Units > 0 {
			h.back = append(h.back, back)
		}
	default: // part of the lease is not needed
		part := h.lease
		part.Units, part.HeldPart = s.upTo(max(part.Units, 0)), 0
		if r.p.Algorithm != limiter.TokenBucket {
			part.Spent = 0 // it stays with the rest
		}
		h.lease.Units -= part.Units
		h.lease.Used -= part.Units
		h.back = append(h.back, part)
		h.split = true
	}
}

// take takes the lease out of a holder, for giving it back.
func (r *leases) take(h *holder) limiter.Lease {
	lease := h.lease.Take(&r.limit)
	if h.lease.Holds() || h.lease.Used > lease.Used {
		r.Fatalf("%+v: %+v is taken, and leaves %+v", r.p, lease, h.lease)
	}
	if r.plain {
		h.lease = limiter.Lease{}
	}
	return lease
}

// claim claims units, mostly with a returned lease.
func (r *leases) claim(s *source, h *holder) {
	least := s.cost(r.limit.Capacity(), freeAt(r.oracle, r.p, r.now))
	c := limiter.Claim{Now: r.now, Min: least, Want: least}
	switch s.pick(4) {
	case 0:
		c.Want += s.upTo(4 * least)
	case 1:
		c.Min = s.upTo(least)
	}
	c.Extra = s.upTo(r.limit.Capacity())
	if r.ahead {
		c.Ahead = s.upTo(r.limit.Slots())
		c.Lasts = s.upTo(2 * r.limit.MaxLasts())
	}
	if s.pick(4) == 0 {
		c.Processes = s.upTo(40)
	}
	c.Spread = r.ahead && s.pick(2) == 0
	if late := r.limit.MaxLate(); r.ahead && late > 0 && s.pick(2) == 0 { // few enough for it
		c.Want = min(c.Want, late)
		c.Min, c.Extra = min(c.Min, c.Want), 1+s.upTo(late-1)
	}
	if r.tidy || s.pick(2) == 0 {
		c.Return = r.take(h)
	}
	before := cloneState(r.state)
	g := r.limit.Claim(&r.state, c)
	r.checkGrant(before, c, g)
	h.granted = append(h.granted, g.Lease)
	if r.prompt || s.pick(3) != 0 {
		r.join(h)
		if c.Min > 0 && g.Units >= c.Min {
			r.spend(h, c.Min)
		}
	}
}

func (r *leases) checkGrant(before limiter.State, c limiter.Claim, g limiter.Grant) {
	r.Helper()
	switch {
	case g.Units < 0 || g.Units > r.limit.Capacity() || g.Units > max(c.Want, c.Min)+c.Extra:
		r.Fatalf("%+v: claim %+v on %+v was granted %+v", r.p, c, before, g)
	case g.Units > 0 && g.Units < c.Min:
		r.Fatalf("%+v: claim %+v on %+v was granted less than the least: %+v", r.p, c, before, g)
	case g.Units > g.Used:
		r.Fatalf("%+v: claim %+v on %+v: more is granted than used: %+v", r.p, c, before, g)
	case g.Refused(c):
		again := c
		again.Return = limiter.Lease{}
		checkRetry(r, r.limit, cloneState(r.state), again, g)
	case g.Retry != 0:
		r.Fatalf("%+v: claim %+v on %+v was not refused, and has a Retry: %+v", r.p, c, before, g)
	}
}

// join joins the last grant, so that several are joined out of order.
func (r *leases) join(h *holder) {
	if n := len(h.granted); n > 0 {
		back := h.lease.Join(&r.limit, h.granted[n-1])
		h.granted = h.granted[:n-1]
		if back.Units > 0 {
			h.back = append(h.back, back)
		}
	}
}

// back gives back the leases that a holder no longer holds, or all.
func (r *leases) back(h *holder) {
	back := append(h.back, r.take(h))
	for _, ls := range back {
		before := cloneState(r.state)
		c := limiter.Claim{Now: r.now, Return: ls}
		g := r.limit.Claim(&r.state, c)
		r.checkGrant(before, c, g)
		if r.plain {
			h.lease = g.Lease
		}
	}
	h.back = nil
	if r.prompt && r.inUse().Sign() == 0 {
		h.split = false
	}
}

func (r *leases) spend(h *holder, cost int64) {
	r.Helper()
	before := h.lease
	worth := before.Worth(&r.limit, r.now)
	if worth < 0 || worth > max(before.Units, 0) {
		r.Fatalf("%+v at %d: lease %+v is worth %d", r.p, r.now, before, worth)
	}
	if got := h.lease.Spend(&r.limit, r.now, cost); got != (cost <= max(worth, 0)) {
		r.Fatalf("%+v at %d: lease %+v is worth %d, spending %d: %v", r.p, r.now, before, worth, cost, got)
	} else if !got {
		if h.lease != before {
			r.Fatalf("%+v at %d: lease %+v is %+v after it was not spent", r.p, r.now, before, h.lease)
		}
		return
	}
	if after := h.lease.Worth(&r.limit, r.now); after != worth-max(cost, 0) {
		r.Fatalf("%+v at %d: lease %+v is worth %d, and %d after spending %d", r.p, r.now, before, worth, after, cost)
	}
	if r.tidy && r.p.Algorithm != limiter.TokenBucket && !admits(r.oracle, r.p, r.now, cost) && cost > 0 {
		r.Fatalf("%+v at %d: spent %d of %+v, and %v were spent before", r.p, r.now, cost, before, r.oracle.used(r.p, r.now))
	}
	r.oracle.charge(r.p, r.now, cost)
	r.promise.admit(r.most, r.now, cost)
}

// fits checks that all leases can be spent at once: together with the remembered spent units they
// fit into the limit.
func (r *leases) fits() {
	r.Helper()
	if r.changes {
		return
	}
	worth := new(big.Rat)
	for _, h := range r.holders {
		for _, ls := range append(append([]limiter.Lease{h.lease}, h.granted...), h.back...) {
			w := ls.Worth(&r.limit, r.now)
			worth.Add(worth, new(big.Rat).SetInt64(w))
		}
	}
	spent := r.oracle.used(r.p, r.now)
	if sum := new(big.Rat).Add(worth, spent); sum.Cmp(new(big.Rat).SetInt64(r.limit.Capacity())) > 0 {
		r.Fatalf("%+v at %d: leases are worth %v, and %v are spent\n%+v\n%+v", r.p, r.now, worth, spent, r.holders, r.state)
	}
	if r.p.Algorithm == limiter.TokenBucket {
		r.fitsBucket(spent)
		return
	}
	for ahead := range int64(8) {
		r.remembers(onClock(r.now, ahead*int64(r.p.Window)/7))
	}
}

// remembers checks that the state remembers all spent units at a later time, and those that leases
// are then worth.
func (r *leases) remembers(at int64) {
	r.Helper()
	want := r.oracle.used(r.p, at)
	for _, h := range r.holders {
		for _, ls := range append(append([]limiter.Lease{h.lease}, h.granted...), h.back...) {
			want.Add(want, new(big.Rat).SetInt64(ls.Worth(&r.limit, at)))
		}
	}
	probe := cloneState(r.state)
	g := r.limit.Claim(&probe, limiter.Claim{Now: at})
	if want.Cmp(new(big.Rat).SetInt64(g.Used)) > 0 {
		r.Fatalf("%+v at %d: as of %d %v are spent or can be, and only %d are in use\n%+v\n%+v", r.p, r.now, at, want, g.Used, r.holders, r.state)
	}
}

// fitsBucket checks that the bucket remembers all spent units and all units in leases, to the last
// part.
func (r *leases) fitsBucket(spent *big.Rat) {
	r.Helper()
	held := new(big.Rat)
	for _, h := range r.holders {
		for _, ls := range append(append([]limiter.Lease{h.lease}, h.granted...), h.back...) {
			held.Add(held, r.held(ls))
		}
	}
	if used := r.inUse(); used.Cmp(new(big.Rat).Add(held, spent)) < 0 {
		r.Fatalf("%+v at %d: %v are held and %v are spent, and only %v in use\n%+v\n%+v", r.p, r.now, held, spent, used, r.holders, r.state)
	}
}

// held returns the rest of a bucket's lease after its spent units have drained.
func (r *leases) held(ls limiter.Lease) *big.Rat {
	left := r.parts(ls.Units, ls.HeldPart)
	drained := new(big.Rat).SetInt(new(big.Int).Sub(big.NewInt(r.now), big.NewInt(ls.At)))
	drained.Mul(drained, big.NewRat(r.p.Amount, int64(r.p.Window)))
	drained.Sub(drained, r.parts(ls.Spent, ls.SpentPart))
	if drained.Sign() > 0 {
		left.Sub(left, drained)
	}
	if left.Sign() < 0 {
		return new(big.Rat)
	}
	return left
}

// parts returns units, and parts of one.
func (r *leases) parts(units, part int64) *big.Rat {
	sum := new(big.Rat).SetInt64(units)
	return sum.Add(sum, big.NewRat(part, int64(r.p.Window)))
}

// lostNothing gives back the leases of a single holder, and checks that only its spent units are
// charged, to the last part of a unit, and none ahead if it gave back with every claim.
func (r *leases) lostNothing(h *holder) {
	r.Helper()
	r.back(h)
	if r.p.Algorithm == limiter.TokenBucket && (r.changes || h.split) {
		return // the oracle drains at another rate, or the split lease drained twice
	}
	for _, slot := range r.state.Slots {
		if r.tidy && slot.Used > 0 && slot.Index > r.limit.Slot(r.now) {
			r.Fatalf("%+v at %d: everything is given back, and %d are charged ahead: %+v", r.p, r.now, slot.Used, r.state)
		}
	}
	// Units charged ahead count from the time of their return, or their slot's.
	if got, want := r.inUse(), r.oracle.used(r.p, r.now); got.Cmp(want) < 0 || got.Cmp(want) > 0 && !r.ahead {
		r.Fatalf("%+v at %d: everything is given back, and %v are in use, not %v: %+v", r.p, r.now, got, want, r.state)
	}
}

// inUse returns the units in use of the state.
func (r *leases) inUse() *big.Rat {
	probe := cloneState(r.state)
	g := r.limit.Claim(&probe, limiter.Claim{Now: r.now})
	used := r.parts(g.Used, g.Part)
	if lead := g.At - r.now; r.p.Algorithm == limiter.TokenBucket && lead > 0 { // leases last that long
		used.Add(used, new(big.Rat).Mul(big.NewRat(r.p.Amount, int64(r.p.Window)), new(big.Rat).SetInt64(lead)))
	}
	return used
}

// quota checks the quota of a key with a single holder.
func (r *leases) quota(h *holder) {
	r.Helper()
	q := h.lease.Quota(&r.limit, r.now)
	left := freeAt(r.oracle, r.p, r.now)
	reset := r.reset()
	exact := q == limiter.Quota{Remaining: left, Reset: reset}
	switch {
	case r.p.Algorithm == limiter.TokenBucket && r.changes:
		exact = true // the oracle drains at another rate
	case r.p.Algorithm == limiter.TokenBucket && r.ahead:
		// A lease that lasts knows the usage at its end, and its spent units drain from then on.
		lasts := new(big.Rat).Mul(big.NewRat(r.p.Amount, int64(r.p.Window)), new(big.Rat).SetInt64(r.limit.MaxLasts()))
		most := ceil(lasts).Num().Int64() + left
		exact = q.Remaining <= most && q.Remaining >= 0 && q.Reset >= reset
	case r.p.Algorithm == limiter.Sliding:
		// It does not know which slots before the last were used.
		exact = q.Remaining <= left && q.Remaining >= 0 && q.Reset >= reset && q.Reset <= max(reset, r.p.Window+time.Duration(slotWidth(r.p)))
	}
	if !exact {
		r.Fatalf("%+v at %d: quota of %+v is %+v, want %d in %d", r.p, r.now, h.lease, q, left, reset)
	}
}

// reset returns how long it takes until all spent units are forgotten.
func (r *leases) reset() time.Duration {
	if r.oracle.used(r.p, r.now).Sign() == 0 {
		return 0
	}
	return waitFor(r.oracle, r.p, r.now, capacityOf(r.p))
}
