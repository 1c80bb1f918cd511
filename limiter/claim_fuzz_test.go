package limiter_test

import (
	"math"
	"math/big"
	"reflect"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// FuzzClaim compares claims for exactly the cost of a request, under a limit whose amount changes
// and a clock that jumps, with the oracle and the promise. The promise of a token bucket requires
// clocks that never run backwards; the promise of the other algorithms always holds.
func FuzzClaim(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) { checkClaims(t, data) })
}

func TestClaimRandom(t *testing.T) { runRandom(t, proof.Times(500, 1500), checkClaims) }

// claims is one run of FuzzClaim.
type claims struct {
	testing.TB
	p       limiter.Params
	limit   limiter.Limit
	state   limiter.State
	oracle  oracle
	promise promise
	now     int64
	jumps   bool // the clock may run backwards
}

func checkClaims(t testing.TB, data []byte) {
	s := &source{data}
	p := s.params()
	c := &claims{TB: t, p: p, limit: mustNew(t, p), oracle: newOracle(p), promise: promise{p: p}}
	c.now = s.start(p)
	c.jumps = s.pick(2) == 1
	for steps := 0; s.more() && steps < 80; steps++ {
		c.move(s)
		switch s.pick(8) {
		case 0:
			s.amount(&c.p)
			l, err := c.limit.WithAmount(c.p.Amount, c.p.Burst)
			if err != nil {
				t.Fatalf("WithAmount(%d, %d): %v", c.p.Amount, c.p.Burst, err)
			}
			c.limit = l
		case 1:
			if s.pick(4) == 0 {
				c.charge(s.upTo(2*capacityOf(c.p)), s.pick(2) == 0)
			}
		}
		c.claim(s.cost(capacityOf(c.p), freeAt(c.oracle, c.p, c.now)))
		if !c.jumps && s.pick(4) == 0 {
			c.trim()
		}
	}
	if from, to, got, bad := c.promise.broken(); bad && !(c.jumps && p.Algorithm == limiter.TokenBucket) {
		t.Fatalf("%+v: %d units admitted from %d to %d\n%+v", p, got, from, to, c.promise.log)
	}
}

// move moves the clock: mostly forward, sometimes back.
func (c *claims) move(s *source) {
	step := s.step(c.p)
	if c.jumps && s.pick(6) == 0 {
		step = -step
		if s.pick(4) == 0 {
			step *= 100
		}
	}
	c.now = onClock(c.now, step)
}

func (c *claims) charge(units int64, floor bool) {
	if c.oracle.used(c.p, c.now).Cmp(big.NewRat(2*limiter.MaxAmount-units, 1)) > 0 {
		return // more than a bucket can hold
	}
	charge := limiter.Charge{Units: units, Floor: floor}
	if floor {
		used := c.oracle.used(c.p, c.now)
		if bucket, ok := c.oracle.(*bucketOracle); ok {
			used = bucket.left(c.p, c.now)
		}
		units = max(units-new(big.Int).Div(used.Num(), used.Denom()).Int64(), 0)
	}
	if c.p.Algorithm != limiter.TokenBucket {
		charge.At = c.limit.Slot(c.now)
	}
	g := c.limit.Claim(&c.state, limiter.Claim{Now: c.now, Charge: charge})
	if g.Units != 0 || g.Retry != 0 {
		c.Fatalf("a claim for nothing that charges %d was answered by %+v", units, g)
	}
	c.oracle.charge(c.p, c.now, units)
	c.promise.look(c.p, c.now)
}

// trim must not change anything that counts.
func (c *claims) trim() {
	c.Helper()
	c.state.Trim(&c.limit, c.now)
	if len(c.state.Slots) > int(2*c.limit.Slots())+2 {
		c.Fatalf("%d slots are left of a trimmed state, of a limit of %d", len(c.state.Slots), c.limit.Slots())
	}
}

func (c *claims) claim(cost int64) {
	c.Helper()
	before := cloneState(c.state)
	want := admits(c.oracle, c.p, c.now, cost)
	request := limiter.Claim{Now: c.now, Min: cost, Want: cost}
	g := c.limit.Claim(&c.state, request)

	if g.Refused(request) == want && cost > 0 {
		c.Fatalf("%+v at %d: claim of %d on %+v: granted %v, want %v", c.p, c.now, cost, before, !want, want)
	}
	if want && g.Units != cost {
		c.Fatalf("%+v at %d: claim of %d on %+v: granted %d units", c.p, c.now, cost, before, g.Units)
	}
	if want {
		c.oracle.charge(c.p, c.now, cost)
		c.promise.admit(c.p, c.now, cost)
	}
	used := new(big.Rat).SetInt64(g.Used)
	used.Add(used, big.NewRat(g.Part, int64(c.p.Window)))
	wantUsed := c.oracle.used(c.p, c.now)
	if bucket, ok := c.oracle.(*bucketOracle); ok {
		wantUsed = bucket.left(c.p, c.now)
	}
	if used.Cmp(wantUsed) != 0 {
		c.Fatalf("%+v at %d: claim of %d on %+v: used %v, want %v", c.p, c.now, cost, before, used, wantUsed)
	}
	if want || cost == 0 {
		if g.Retry != 0 {
			c.Fatalf("%+v at %d: claim of %d was not refused, and has Retry %d", c.p, c.now, cost, g.Retry)
		}
		return
	}
	if !reflect.DeepEqual(before, c.state) {
		c.Fatalf("%+v at %d: a refused claim of %d changed %+v to %+v", c.p, c.now, cost, before, c.state)
	}
	if isAhead(c.oracle, c.p, c.now) {
		return // ignored slots may count by then
	}
	if wait := waitFor(c.oracle, c.p, c.now, cost); g.Retry != wait {
		c.Fatalf("%+v at %d: claim of %d on %+v: Retry %d, want %d", c.p, c.now, cost, before, g.Retry, wait)
	}
	checkRetry(c, c.limit, before, request, g)
}

// isAhead reports whether o ignores units because they are too far ahead of now.
func isAhead(o oracle, p limiter.Params, now int64) bool {
	return o.(interface {
		ahead(limiter.Params, int64) bool
	}).ahead(p, now)
}

// checkRetry claims the same again, at Retry and a nanosecond before.
func checkRetry(t testing.TB, l limiter.Limit, s limiter.State, c limiter.Claim, g limiter.Grant) {
	t.Helper()
	if g.Retry == limiter.Never {
		if c.Min <= l.Capacity() {
			t.Fatalf("claim of %d never fits into %d", c.Min, l.Capacity())
		}
		return
	}
	if g.Retry <= 0 {
		t.Fatalf("refused at %d, with Retry %d", c.Now, g.Retry)
	}
	if int64(g.Retry) > math.MaxInt64-max(c.Now, 0)-2*int64(l.Window()) {
		return // beyond the end of time
	}
	again := c
	again.Now = c.Now + int64(g.Retry) - 1
	early := cloneState(s)
	if got := l.Claim(&early, again); !got.Refused(again) {
		t.Fatalf("%+v: claim %+v on %+v: refused with Retry %d, and granted a nanosecond earlier", l, c, s, g.Retry)
	}
	again.Now++
	inTime := cloneState(s)
	if got := l.Claim(&inTime, again); got.Refused(again) {
		t.Fatalf("%+v: claim %+v on %+v: refused with Retry %d, and refused again then: %+v", l, c, s, g.Retry, got)
	}
}
