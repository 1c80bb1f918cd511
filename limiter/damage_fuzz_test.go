package limiter_test

import (
	"math"
	"slices"
	"testing"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// FuzzDamage starts from a state as in a damaged file: any numbers at all. For all of them, nothing
// panics, the limit allows every grant, and from then on at most the promised units are granted.
func FuzzDamage(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) { checkDamage(t, data) })
}

func TestDamageRandom(t *testing.T) { runRandom(t, 2000, checkDamage) }

func checkDamage(t testing.TB, data []byte) {
	s := &source{data}
	p := s.params()
	l := mustNew(t, p)
	now := s.start(p)
	slot := l.Slot
	if p.Algorithm == limiter.TokenBucket {
		slot = nil
	}
	state := damagedState(s, l, now)
	start := cloneState(state)
	promise := promise{p: p}
	for steps := 0; s.more() && steps < 60; steps++ {
		c := limiter.Claim{Now: now, Min: s.cost(l.Capacity(), l.Capacity()), Extra: s.upTo(l.Capacity())}
		c.Want = c.Min + s.upTo(l.Capacity())
		if s.pick(4) == 0 {
			c.Charge = limiter.Charge{At: s.number(slot, now), Units: s.number(nil, now), Floor: s.pick(2) == 0}
		}
		before := cloneState(state)
		g := l.Claim(&state, c)
		switch {
		case g.Units < 0 || g.Units > l.Capacity() || g.Units > c.Want+c.Extra || g.Units > 0 && g.Units < c.Min:
			t.Fatalf("%+v from %+v: claim %+v on %+v is granted %+v", p, start, c, before, g)
		case g.Used < g.Units || g.Part < 0 || g.Part >= int64(p.Window):
			t.Fatalf("%+v from %+v: claim %+v on %+v: what is used does not make sense: %+v", p, start, c, before, g)
		case g.Refused(c) && g.Retry <= 0 && g.Retry != limiter.Never:
			t.Fatalf("%+v from %+v: claim %+v on %+v is refused without a Retry: %+v", p, start, c, before, g)
		case g.Refused(c) && !hasAhead(l, state, now):
			c.Charge = limiter.Charge{}
			checkRetry(t, l, state, c, g)
		}
		promise.admit(p, now, g.Units)
		if q := g.Lease.Quota(&l, now); q.Remaining < 0 || q.Remaining > l.Capacity() || q.Reset < 0 {
			t.Fatalf("%+v: quota of %+v is %+v", p, g.Lease, q)
		}
		if w := g.Lease.Worth(&l, now); w != g.Units {
			t.Fatalf("%+v: a grant of %+v is worth %d", p, g.Lease, w)
		}
		now = onClock(now, s.step(p))
	}
	if from, to, got, bad := promise.broken(); bad {
		t.Fatalf("%+v from %+v: %d units granted from %d to %d\n%+v", p, start, got, from, to, promise.log)
	}
}

// number returns any number, or one near a valid one.
func (s *source) number(near func(int64) int64, now int64) int64 {
	switch s.pick(8) {
	case 0:
		return []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64}[s.pick(7)]
	case 1:
		return s.word()
	case 2, 3:
		return s.upTo(math.MaxInt64)
	}
	if near == nil {
		return s.upTo(limiter.MaxAmount)
	}
	return near(now) + int64(s.byte()) - 128
}

// damagedState keeps the order of slots, which the store makes and does not read from a file, and
// nothing else.
func damagedState(s *source, l limiter.Limit, now int64) (state limiter.State) {
	if l.Algorithm() == limiter.TokenBucket {
		same := func(now int64) int64 { return now }
		state.Bucket = limiter.Bucket{At: s.number(same, now), Units: s.number(nil, now), Part: s.number(nil, now)}
		return state
	}
	for range s.pick(8) {
		index := s.number(l.Slot, now)
		if !slices.ContainsFunc(state.Slots, func(slot limiter.Slot) bool { return slot.Index == index }) {
			state.Slots = append(state.Slots, limiter.Slot{Index: index, Used: s.number(nil, now)})
		}
	}
	slices.SortFunc(state.Slots, func(a, b limiter.Slot) int {
		if a.Index < b.Index {
			return -1
		}
		return 1
	})
	return state
}

// hasAhead reports whether s holds slots too far ahead to count at now.
func hasAhead(l limiter.Limit, s limiter.State, now int64) bool {
	return len(s.Slots) > 0 && s.Slots[len(s.Slots)-1].Index > l.Newest(now)
}
