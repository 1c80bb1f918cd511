package storagetest

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// testModel compares random batches with the model. Sometimes the store is closed and opened again,
// which must make no difference.
func testModel(t *testing.T, open storage.Opener) {
	seeds(t, 4, func(t *testing.T, seed uint64) {
		tr, m, s := newTraffic(t, seed), model{}, must(t, open)
		tr.keys = 3 + int(seed%40)
		tr.offset(seed)
		for range proof.Times(60, 120) {
			if tr.rand.IntN(20) == 0 {
				if err := s.Close(); err != nil {
					t.Fatalf("close: %v", err)
				}
				s = must(t, open)
			}
			claims := tr.batch()
			tr.keep(claims, m.check(t, s, claims...))
		}
		if err := s.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	})
}

// offset shifts the traffic in time, far from that of other seeds in the same place.
func (tr *traffic) offset(seed uint64) {
	day := min(seed, 20+seed%100)                   // the small seeds are those that are always used
	tr.now += int64(day+1) * int64(32*24*time.Hour) // longer than a month
}

// testOneBatch claims one key several times in a batch. The claims see each other's results, in
// order.
func testOneBatch(t *testing.T, open storage.Opener) {
	s := must(t, open)
	for i, p := range params {
		l := newLimit(t, p)
		half := (l.Capacity() + 1) / 2
		c := func(claim limiter.Claim) storage.Claim {
			claim.Now = start
			return storage.Claim{ID: limitID(i), Key: key(1), Limit: l, Claim: claim}
		}
		first := claim(t, s, c(limiter.Claim{Min: half, Want: half}))
		if first[0].Units != half {
			t.Fatalf("%v: got %d units of a fresh key, want %d", p.Algorithm, first[0].Units, half)
		}
		m := model{}
		m.claim(c(limiter.Claim{Min: half, Want: half}))
		grants := m.check(t, s,
			c(limiter.Claim{Min: 1, Want: l.Capacity()}),
			c(limiter.Claim{Min: 1, Want: 1}),
			c(limiter.Claim{Min: 1, Want: 1, Return: first[0].Lease}),
			c(limiter.Claim{Min: 1, Want: l.Capacity()}),
			c(limiter.Claim{Min: 1, Want: 1}),
		)
		if !grants[4].Refused(limiter.Claim{Min: 1}) {
			t.Fatalf("%v: granted %d units of a limit that is used up", p.Algorithm, grants[4].Units)
		}
	}
}

// testApart uses up one key of one limit and checks the others.
func testApart(t *testing.T, open storage.Opener) {
	s := must(t, open)
	for n, p := range params {
		l := newLimit(t, p)
		ids := []storage.LimitID{0, 1, math.MaxInt64, 1 << 63, math.MaxUint64}
		keys := []storage.Key{{}, {15: 1}, {0: 1}, {0: 255, 15: 255}}
		var claims []storage.Claim
		for _, id := range ids {
			for _, k := range keys {
				claims = append(claims, storage.Claim{
					// An ID belongs to one algorithm, window and slots.
					ID: id ^ storage.LimitID(n)<<32, Key: k, Limit: l,
					Claim: limiter.Claim{Now: start, Min: l.Capacity(), Want: l.Capacity()},
				})
			}
		}
		for i, g := range claim(t, s, claims...) {
			if g.Units != l.Capacity() {
				t.Fatalf("%v: claim %d: got %d units, want %d: keys or limits mix", p.Algorithm, i, g.Units,
					l.Capacity())
			}
		}
		for i, g := range claim(t, s, claims...) {
			if g.Units != 0 {
				t.Fatalf("%v: claim %d: got %d units of a limit that is used up", p.Algorithm, i, g.Units)
			}
		}
	}
}

// testHugeValues sends values that no engine sends. The store may refuse them, but must not panic,
// grant too much, or affect other keys.
func testHugeValues(t *testing.T, open storage.Opener) {
	s := must(t, open)
	huge := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64}
	for i, p := range params {
		l, slot := newLimit(t, p), int64(0)
		if l.CountsSlots() {
			slot = l.Oldest(start)
		}
		for _, v := range huge {
			var claims []storage.Claim
			for j, c := range []limiter.Claim{
				{Now: start, Min: 1, Want: v},
				{Now: start, Min: v, Want: 1},
				{Now: start, Min: 1, Want: 1, Extra: v},
				{Now: start, Min: 1, Want: 1, Charge: limiter.Charge{At: slot, Units: v}},
				{Now: start, Min: 1, Want: 1, Charge: limiter.Charge{At: v, Units: 1}},
				{Now: start, Min: 1, Want: 1, Return: limiter.Lease{At: slot, Units: v, Used: v}},
				{Now: start, Min: 1, Want: 1, Return: limiter.Lease{At: v, Units: 1, Used: 1}},
				{Now: start, Min: 1, Want: 1,
					Return: limiter.Lease{At: slot, Units: 1, Used: 1, Spent: v, Span: v, Lapsed: v}},
				{Now: start, Min: 1, Want: 1, Extra: v, Ahead: v, Spread: true},
			} {
				claims = append(claims, storage.Claim{ID: limitID(i), Key: key(j), Limit: l, Claim: c})
			}
			for range 2 { // the second time with what the first has left
				grants := make([]limiter.Grant, len(claims))
				if err := s.Claim(context.Background(), At(start), claims, grants); err != nil {
					t.Fatalf("%v: %d: %v", p.Algorithm, v, err)
				}
				for j, g := range grants {
					if g.Units < 0 || g.Units > l.Capacity() {
						t.Fatalf("%v: %+v: granted %d of %d units", p.Algorithm, claims[j].Claim, g.Units, l.Capacity())
					}
				}
			}
		}
		ok := storage.Claim{ID: limitID(i), Key: key(99), Limit: l,
			Claim: limiter.Claim{Now: start, Min: l.Capacity(), Want: 1}}
		model{}.check(t, s, ok, ok)
	}
}

// testBadCalls makes invalid calls.
func testBadCalls(t *testing.T, open storage.Opener) {
	s, l := must(t, open), newLimit(t, params[0])
	good := storage.Claim{ID: 1, Key: key(1), Limit: l, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}
	if err := s.Claim(context.Background(), At(start), []storage.Claim{good, good},
		make([]limiter.Grant, 1)); err == nil {
		t.Error("two claims with room for one grant: got no error")
	}
	if err := s.Claim(context.Background(), At(start), []storage.Claim{good, {ID: 1}},
		make([]limiter.Grant, 2)); err == nil {
		t.Error("a claim without a limit: got no error")
	}
	if err := s.Claim(context.Background(), At(start), nil, nil); err != nil {
		t.Errorf("no claims: %v", err)
	}
	model{}.check(t, s, good)
}

// testCancelled makes calls with canceled contexts.
func testCancelled(t *testing.T, open storage.Opener) {
	s, m, l := must(t, open), model{}, newLimit(t, params[0])
	c := storage.Claim{ID: 1, Key: key(1), Limit: l, Claim: limiter.Claim{Now: start, Min: 1, Want: 5}}
	m.check(t, s, c)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Claim(ctx, At(start), []storage.Claim{c}, make([]limiter.Grant, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("claim with a cancelled context: got %v", err)
	} else if errors.Is(err, storage.ErrUnknownOutcome) {
		t.Error("claim with a cancelled context: the outcome is said to be unknown")
	}
	if _, err := s.Sweep(ctx, At(start+int64(time.Hour))); !errors.Is(err, context.Canceled) {
		t.Errorf("sweep with a cancelled context: got %v", err)
	}
	if _, err := s.Stats(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stats with a cancelled context: got %v", err)
	}
	if other, err := open(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("open with a cancelled context: got %v", err)
		if err == nil {
			_ = other.Close()
		}
	}
	m.check(t, s, c)
}
