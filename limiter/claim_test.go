package limiter_test

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

var algorithms = []limiter.Algorithm{limiter.Sliding, limiter.Fixed, limiter.TokenBucket}

// noon is a time within all slots and windows: none begins at it.
const noon = int64(1_763_000_000_123_456_789)

// A client that uses up its limit evenly or at once, is refused, and comes back
// exactly at Retry is admitted; a nanosecond earlier it is not.
func TestRetryIsExact(t *testing.T) {
	for _, algorithm := range algorithms {
		for _, amount := range []int64{1, 7, 1000} {
			for _, window := range []time.Duration{time.Second, 7 * time.Second, time.Minute, time.Hour, 24 * time.Hour} {
				for _, pace := range []int64{0, int64(window) / (2 * amount)} {
					name := fmt.Sprintf("%v/%d in %v/every %v", algorithm, amount, window, time.Duration(pace))
					t.Run(name, func(t *testing.T) {
						l := mustNew(t, limiter.Params{Algorithm: algorithm, Amount: amount, Window: window})
						testRetry(t, l, pace)
					})
				}
			}
		}
	}
}

func testRetry(t *testing.T, l limiter.Limit, pace int64) {
	var s limiter.State
	c := limiter.Claim{Now: noon, Min: 1, Want: 1}
	var waits int
	for range 3 * l.Amount() {
		g := l.Claim(&s, c)
		if g.Refused(c) {
			waits++
			if most := l.Window() + l.Window()/time.Duration(max(l.Slots(), 1)) + 1; g.Retry > most {
				t.Fatalf("Retry is %v, longer than %v", g.Retry, most)
			}
			checkRetry(t, l, s, c, g)
			c.Now += int64(g.Retry)
			if g = l.Claim(&s, c); g.Refused(c) {
				t.Fatalf("refused at Retry: %+v", g)
			}
		}
		c.Now += pace
	}
	if waits == 0 {
		t.Fatal("nothing was refused")
	}
}

func TestRetryTimes(t *testing.T) {
	const s = int64(time.Second)
	type step struct {
		at, cost int64
		retry    time.Duration // 0: granted
	}
	for _, tt := range []struct {
		name  string
		p     limiter.Params
		steps []step
	}{
		{"sliding", limiter.Params{Amount: 3, Window: 10 * time.Second, Slots: 10}, []step{
			{0, 1, 0}, {3*s + 1, 2, 0},
			{5 * s, 1, 6*time.Second - 1},  // the first slot expires at 11 s - 1
			{5 * s, 2, 9*time.Second - 1},  // the second too, at 14 s - 1
			{5 * s, 3, 9*time.Second - 1},  // the same
			{5 * s, 4, limiter.Never},      // more than the capacity
			{11*s - 2, 1, 1},               // an instant too early
			{11*s - 1, 1, 0},               // exactly
			{11*s - 1, 1, 3 * time.Second}, // 14 s - 1
		}},
		{"fixed", limiter.Params{Algorithm: limiter.Fixed, Amount: 3, Window: 10 * time.Second}, []step{
			{0, 2, 0}, {9 * s, 2, time.Second}, {9 * s, 4, limiter.Never}, {10*s - 1, 2, 1}, {10 * s, 3, 0}, {10 * s, 1, 10 * time.Second},
		}},
		{"token bucket", limiter.Params{Algorithm: limiter.TokenBucket, Amount: 3, Window: 10 * time.Second, Burst: 4}, []step{
			{0, 4, 0},
			{0, 1, 3333333334}, // 10 s / 3, rounded up
			{0, 4, 13333333334},
			{0, 5, limiter.Never},
			{3333333333, 1, 1},
			{3333333334, 1, 0},
			{3333333334, 1, 3333333333}, // 20 s / 3
			{6666666667, 1, 0},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := mustNew(t, tt.p)
			var state limiter.State
			for i, st := range tt.steps {
				c := limiter.Claim{Now: st.at, Min: st.cost, Want: st.cost}
				g := l.Claim(&state, c)
				if g.Refused(c) != (st.retry != 0) || g.Retry != st.retry {
					t.Errorf("step %d: claim of %d at %v: %+v, want Retry %v", i, st.cost, time.Duration(st.at), g, st.retry)
				}
			}
		})
	}
}

// granted claims units one at a time until one is refused.
func granted(l limiter.Limit, s *limiter.State, now int64) (n int) {
	c := limiter.Claim{Now: now, Min: 1, Want: 1}
	for !l.Claim(s, c).Refused(c) {
		n++
	}
	return n
}

func TestChangedAmountKeepsWhatIsUsed(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			l := mustNew(t, limiter.Params{Algorithm: algorithm, Amount: 10, Window: time.Minute})
			with := func(amount int64) limiter.Limit {
				l, err := l.WithAmount(amount, 0)
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			var s limiter.State
			for _, step := range []struct {
				amount int64
				want   int
			}{{10, 10}, {12, 2}, {8, 0}, {12, 0}, {13, 1}} {
				if got := granted(with(step.amount), &s, noon); got != step.want {
					t.Errorf("%d more are granted with an amount of %d, want %d", got, step.amount, step.want)
				}
			}
			// Of the 13 in use, a lower amount first releases the units above it.
			c := limiter.Claim{Now: noon, Min: 1, Want: 1}
			lower := with(8)
			checkRetry(t, lower, s, c, lower.Claim(&s, c))
		})
	}
}

// A lease from before the amount was lowered is worth the units that the new amount leaves.
func TestLoweredAmountLimitsLease(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			l := mustNew(t, limiter.Params{Algorithm: algorithm, Amount: 100, Window: time.Minute})
			low, err := l.WithAmount(10, 0)
			if err != nil {
				t.Fatal(err)
			}
			var s limiter.State
			l.Claim(&s, limiter.Claim{Now: noon, Min: 4, Want: 4}) // another process
			lease := l.Claim(&s, limiter.Claim{Now: noon, Min: 50, Want: 50}).Lease
			if got := lease.Worth(&low, noon); got != 6 {
				t.Fatalf("the lease is worth %d, want 6", got)
			}
			spent := lease
			if spent.Spend(&low, noon, 1); spent.Worth(&low, noon+1) != 5 {
				t.Errorf("an instant after 1 is spent, the lease is worth %d, want 5", spent.Worth(&low, noon+1))
			}
			if lease.Spend(&low, noon, 7) || !lease.Spend(&low, noon, 6) || lease.Spend(&low, noon, 1) {
				t.Errorf("other than 6 units are spent: %+v", lease)
			}
			if got := lease.Worth(&l, noon); got != 44 {
				t.Errorf("raised again, the lease is worth %d, want 44", got)
			}
		})
	}
}

func TestClaimForNothing(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			l := mustNew(t, limiter.Params{Algorithm: algorithm, Amount: 5, Window: time.Minute})
			var s limiter.State
			l.Claim(&s, limiter.Claim{Now: noon, Min: 5, Want: 5})
			before := cloneState(s)
			c := limiter.Claim{Now: noon + 1}
			if g := l.Claim(&s, c); g.Refused(c) || g.Units != 0 || g.Retry != 0 {
				t.Errorf("a cost of zero is answered by %+v", g)
			}
			if !reflect.DeepEqual(s, before) {
				t.Errorf("a cost of zero changed %+v to %+v", before, s)
			}
		})
	}
}

func TestShares(t *testing.T) {
	for _, tt := range []struct {
		name               string
		used               int64
		least, want, extra int64
		units              int64
	}{
		{"exact", 0, 1, 1, 0, 1},
		{"want taken for least", 0, 5, 0, 0, 5},
		{"as much as is left", 95, 1, 50, 0, 5},
		{"less than the least is left", 95, 6, 50, 50, 0},
		{"extra", 0, 1, 1, 8, 9},
		{"extra, no more than an eighth of what is left then", 0, 20, 20, 50, 30},
		{"no extra near the limit", 92, 1, 1, 50, 1},
		{"extra alone", 0, 0, 0, 50, 0},
		{"negative extra", 0, 1, 1, -50, 1},
		{"least zero", 98, 0, 50, 0, 2},
		{"least zero, nothing left", 100, 0, 50, 0, 0},
	} {
		for _, algorithm := range algorithms {
			t.Run(tt.name+"/"+algorithm.String(), func(t *testing.T) {
				l := mustNew(t, limiter.Params{Algorithm: algorithm, Amount: 100, Window: time.Minute})
				var s limiter.State
				l.Claim(&s, limiter.Claim{Now: noon, Min: tt.used, Want: tt.used})
				c := limiter.Claim{Now: noon, Min: tt.least, Want: tt.want, Extra: tt.extra}
				g := l.Claim(&s, c)
				if g.Units != tt.units || g.Used != tt.used+tt.units {
					t.Errorf("%+v with %d in use: granted %+v, want %d", c, tt.used, g, tt.units)
				}
				if g.Refused(c) != (tt.units == 0 && tt.least > 0) {
					t.Errorf("%+v with %d in use: refused is %v", c, tt.used, g.Refused(c))
				}
			})
		}
	}
}

// Units admitted without the store are charged even above the limit.
func TestChargeGoesOverTheLimit(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			l := mustNew(t, limiter.Params{Algorithm: algorithm, Amount: 5, Window: time.Minute})
			charge := limiter.Charge{Units: 8}
			if algorithm != limiter.TokenBucket {
				charge.At = l.Slot(noon)
			}
			var s limiter.State
			c := limiter.Claim{Now: noon, Min: 1, Want: 1, Charge: charge}
			g := l.Claim(&s, c)
			if !g.Refused(c) || g.Used != 8 {
				t.Errorf("got %+v, want a refusal with 8 in use", g)
			}
			c.Charge = limiter.Charge{}
			checkRetry(t, l, s, c, g)

			before := cloneState(s)
			c.Charge = limiter.Charge{At: charge.At, Units: -8}
			if g := l.Claim(&s, c); g.Used != 8 || !reflect.DeepEqual(s, before) {
				t.Errorf("a negative charge leaves %+v in use", g)
			}
		})
	}
}

// Possibly lost units are charged as far as they are missing.
func TestChargeUpToAFloor(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			l := mustNew(t, limiter.Params{Algorithm: algorithm, Amount: 10, Window: time.Minute})
			charge := limiter.Charge{Floor: true}
			if algorithm != limiter.TokenBucket {
				charge.At = l.Slot(noon)
			}
			var s limiter.State
			for _, step := range []struct{ claim, floor, used int64 }{
				{0, 3, 3}, {0, 3, 3}, {2, 3, 5}, {0, 4, 5}, {1, 8, 9}, {0, 0, 9}, {0, -5, 9}, {0, 12, 12},
			} {
				charge.Units = step.floor
				if g := l.Claim(&s, limiter.Claim{Now: noon, Want: step.claim, Charge: charge}); g.Used != step.used {
					t.Fatalf("%+v: %d in use", step, g.Used)
				}
			}
		})
	}
}

// The numbers of a damaged bucket in all combinations.
func TestDamagedBuckets(t *testing.T) {
	l := mustNew(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 10, Window: time.Minute})
	extremes := []int64{math.MinInt64, -1, 0, 1, 10, int64(time.Minute), noon, math.MaxInt64 - 1, math.MaxInt64}
	for _, at := range extremes {
		for _, units := range extremes {
			for _, part := range extremes {
				s := limiter.State{Bucket: limiter.Bucket{At: at, Units: units, Part: part}}
				before := s
				g := l.Claim(&s, limiter.Claim{Now: noon, Want: 10})
				g2 := l.Claim(&s, limiter.Claim{Now: noon, Want: 10})
				if g.Units < 0 || g.Units > 10 || g2.Units != 0 {
					t.Errorf("%+v: granted %d and then %d", before, g.Units, g2.Units)
				}
				if s.Bucket.Units > 0 && (s.Bucket.Part < 0 || s.Bucket.Part >= int64(time.Minute)) && g.Units > 0 {
					t.Errorf("%+v: became %+v", before, s)
				}
			}
		}
	}
}

// The units that drain in a long time are too many for 63 bits, and then for 64.
func TestBucketIsEmptyAfterLong(t *testing.T) {
	l := mustNew(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: limiter.MaxAmount, Window: time.Second})
	for _, days := range []int64{1, 90, 110, 150, 200, 220, 1000, 10_000} {
		var s limiter.State
		l.Claim(&s, limiter.Claim{Now: noon, Want: limiter.MaxAmount})
		g := l.Claim(&s, limiter.Claim{Now: noon + days*24*int64(time.Hour), Want: limiter.MaxAmount})
		if g.Units != limiter.MaxAmount || g.Used != limiter.MaxAmount {
			t.Errorf("after %d days: %+v, want all", days, g)
		}
	}
}

// The time in which many units and almost one more drain carries over from the
// lower 64 bits.
func TestRetryOfLargeBuckets(t *testing.T) {
	p := limiter.Params{Algorithm: limiter.TokenBucket, Amount: limiter.MaxAmount, Window: limiter.MaxWindow}
	l := mustNew(t, p)
	part := int64(p.Window) - 1
	for units, found := int64(limiter.MaxAmount), 0; found < 5; units++ {
		if _, carry := bits.Add64(uint64(units-limiter.MaxAmount+1)*uint64(p.Window), uint64(part), 0); carry == 0 {
			continue
		}
		found++
		s := limiter.State{Bucket: limiter.Bucket{At: noon, Units: units, Part: part}}
		o := &bucketOracle{at: noon, level: big.NewRat(part, int64(p.Window))}
		o.level.Add(o.level, new(big.Rat).SetInt64(units))
		c := limiter.Claim{Now: noon, Min: 1, Want: 1}
		if got, want := l.Claim(&s, c).Retry, waitFor(o, p, noon, 1); got != want {
			t.Errorf("%d units and %d parts: Retry %v, want %v", units, part, got, want)
		}
	}
}

// A completely returned slot, and returned units of other slots, change nothing about the rest.
func TestReturnIsOfItsSlotOnly(t *testing.T) {
	l := mustNew(t, limiter.Params{Amount: 10, Window: 10 * time.Second})
	var s limiter.State
	first := l.Claim(&s, limiter.Claim{Now: 0, Min: 4, Want: 4}).Lease
	l.Claim(&s, limiter.Claim{Now: 2 * second, Min: 6, Want: 6})
	g := l.Claim(&s, limiter.Claim{Now: 3 * second, Return: first})
	if g.Used != 6 {
		t.Errorf("%d units are in use after 4 of 10 are given back", g.Used)
	}
	g = l.Claim(&s, limiter.Claim{Now: 3 * second, Return: first})
	if g.Used != 6 {
		t.Errorf("%d units are in use after the same lease is given back again", g.Used)
	}
}

func TestTrim(t *testing.T) {
	l := mustNew(t, limiter.Params{Amount: 100, Window: 10 * time.Second, Slots: 10})
	s := limiter.State{Slots: []limiter.Slot{{Index: -5, Used: 1}, {Index: 1, Used: 2}, {Index: 2, Used: 3}, {Index: 99, Used: 4}}}
	s.Trim(&l, 12*second) // (2 s, 12 s]
	want := []limiter.Slot{{Index: 2, Used: 3}, {Index: 99, Used: 4}}
	if !reflect.DeepEqual(s.Slots, want) {
		t.Errorf("got %+v, want %+v", s.Slots, want)
	}
	bucket := mustNew(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 1, Window: time.Second})
	s = limiter.State{Bucket: limiter.Bucket{At: 1, Units: 1}}
	if s.Trim(&bucket, 100*second); s.Bucket != (limiter.Bucket{At: 1, Units: 1}) {
		t.Errorf("a bucket was trimmed to %+v", s.Bucket)
	}
}

// Joined slots count for at least their units, and at most about a 64th of the window longer. Few
// of them are left; a limit with few slots keeps them.
func TestCoarsen(t *testing.T) {
	for _, slots := range []int{1, 10, 60, 64, 65, 1440, limiter.MaxSlots} {
		l := mustNew(t, limiter.Params{Amount: limiter.MaxAmount, Window: 24 * time.Hour, Slots: slots})
		window := int64(l.Window())
		used := func(s limiter.State, now int64) int64 { return l.Claim(&s, limiter.Claim{Now: now}).Used }
		var fine limiter.State
		for i := range int64(slots) {
			fine.Slots = append(fine.Slots, limiter.Slot{Index: l.Slot(noon) + i, Used: i + 1})
		}
		coarse := limiter.State{Slots: slices.Clone(fine.Slots)}
		coarse.Coarsen(&l)
		if len(coarse.Slots) > 65 || slots <= 64 && !slices.Equal(coarse.Slots, fine.Slots) {
			t.Errorf("%d slots: %d are left: %v", slots, len(coarse.Slots), coarse.Slots)
		}
		late := window/64 + window/int64(slots)
		for now := noon + window; now < noon+2*window; now += window / 500 {
			if used(coarse, now) < used(fine, now) || used(coarse, now+late) > used(fine, now) {
				t.Fatalf("%d slots: at %d %d are in use, and %d soon after, of %d", slots, now, used(coarse, now), used(coarse, now+late), used(fine, now))
			}
		}
	}
}
