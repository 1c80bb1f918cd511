package limiter

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A recalled lease counts at least the units of the state, from then on. A bucket is recalled
// exactly, and so is a state with one slot that counts.
func TestRecall(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	recalled := 0
	for range 20_000 {
		l, err := New(Params{Algorithm: Algorithm(r.IntN(3)), Amount: 1000, Window: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		var s State
		now := int64(1e18)
		for range r.IntN(8) {
			now += r.Int64N(int64(20 * time.Second))
			l.Claim(&s, Claim{Now: now, Min: 1, Want: 1 + r.Int64N(100), Extra: r.Int64N(10), Ahead: r.Int64N(3)})
		}
		now += r.Int64N(int64(90*time.Second)) - int64(10*time.Second)
		known, ok := s.Recall(&l, now)
		if !ok {
			continue
		}
		recalled++
		if known.Units != 0 || known.Spent != 0 {
			t.Fatalf("%+v is recalled as %+v, which holds something", s, known)
		}
		for at := now; at < now+int64(2*time.Minute); at += r.Int64N(int64(10 * time.Second)) {
			left, least := leftOf(l, known.State(&l), at), leftOf(l, s, at)
			if left > least || left < least && (!l.CountsSlots() || len(unitsOf(s)) < 2) {
				t.Fatalf("%v later the state %+v leaves %d units, what is recalled, %+v, leaves %d", time.Duration(at-now), s, least, known, left)
			}
		}
	}
	if recalled < 10_000 {
		t.Errorf("only %d of 20,000 states are recalled", recalled)
	}
}

// leftOf returns how many units a state leaves.
func leftOf(l Limit, s State, now int64) int64 {
	s.Slots = append([]Slot(nil), s.Slots...)
	return l.Claim(&s, Claim{Now: now, Min: 1, Want: MaxAmount}).Units
}
