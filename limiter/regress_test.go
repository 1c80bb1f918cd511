package limiter_test

import (
	"math"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// Every test in this file describes a bug that was in this package.

// tenPerTenSeconds is a token bucket of 10 units that drains one a second.
func tenPerTenSeconds(t *testing.T) limiter.Limit {
	return mustNew(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 10, Window: 10 * time.Second})
}

const second = int64(time.Second)

// Two processes hold a lease on one bucket, and one gives its lease back. The other lease must
// drain from its charge on: the bucket drains it too, and grants the drained units to a third
// process. The lease was assumed to drain after the units that were given back, and 15 units of a
// burst of 10 could be spent at once.
func TestLeaseDrainsThoughAnotherIsReturned(t *testing.T) {
	l := tenPerTenSeconds(t)
	var s limiter.State
	first := l.Claim(&s, limiter.Claim{Min: 5, Want: 5}).Lease
	other := l.Claim(&s, limiter.Claim{Min: 5, Want: 5}).Lease
	l.Claim(&s, limiter.Claim{Return: first})

	later := 5 * second
	third := l.Claim(&s, limiter.Claim{Now: later, Want: 10}).Lease
	if sum := other.Worth(&l, later) + third.Worth(&l, later); sum > 10 {
		t.Errorf("%d units can be spent at once from leases on a burst of 10", sum)
	}
}

// Units spent by a holder do not come back, so its lease drains after them.
func TestLeaseKeepsBehindWhatItsHolderSpent(t *testing.T) {
	l := tenPerTenSeconds(t)
	var s limiter.State
	lease := l.Claim(&s, limiter.Claim{Min: 8, Want: 8}).Lease
	if !lease.Spend(&l, 0, 4) {
		t.Fatal("4 of 8 units can't be spent")
	}
	for _, tt := range []struct{ seconds, worth int64 }{{0, 4}, {4, 4}, {5, 3}, {7, 1}, {8, 0}, {100, 0}} {
		if got := lease.Worth(&l, tt.seconds*second); got != tt.worth {
			t.Errorf("after %d s the lease is worth %d, want %d", tt.seconds, got, tt.worth)
		}
	}
}

// Half a unit of an unspent lease stayed charged.
func TestReturnGivesBackPartOfAUnit(t *testing.T) {
	l := tenPerTenSeconds(t)
	var s limiter.State
	lease := l.Claim(&s, limiter.Claim{Min: 5, Want: 5}).Lease
	g := l.Claim(&s, limiter.Claim{Now: second / 2, Want: 10, Return: lease})
	if g.Units != 10 {
		t.Errorf("%d units are free after everything was given back, want 10", g.Units)
	}

	s = limiter.State{}
	lease = l.Claim(&s, limiter.Claim{Min: 5, Want: 5}).Lease
	l.Claim(&s, limiter.Claim{Now: second / 2, Min: 1, Want: 1}) // another process
	g = l.Claim(&s, limiter.Claim{Now: second / 2, Min: 3, Want: 3, Return: lease})
	if want := (limiter.Lease{Units: 3, At: second / 2, Used: 4}); g.Lease != want {
		t.Errorf("got %+v, want %+v: nothing was spent", g.Lease, want)
	}
}

// A lease that had drained by no more than an instant lost a whole unit when units were spent from
// it, or when it was joined with another: the bucket could not be used up.
func TestLeaseThatDrainsLosesNothing(t *testing.T) {
	l := mustNew(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 10, Window: 30 * 24 * time.Hour, Burst: 100})
	for _, tt := range []struct {
		name  string
		after func(t *testing.T, s *limiter.State, lease *limiter.Lease) (spent int64)
	}{
		{"given back", func(*testing.T, *limiter.State, *limiter.Lease) int64 { return 0 }},
		{"spent from", func(t *testing.T, _ *limiter.State, lease *limiter.Lease) int64 {
			if lease.Spend(&l, noon+1, 40) || !lease.Spend(&l, noon+1, 39) {
				t.Errorf("of 40 units less an instant's, other than 39 can be spent")
			}
			return 39
		}},
		{"joined", func(_ *testing.T, s *limiter.State, lease *limiter.Lease) int64 {
			lease.Join(&l, l.Claim(s, limiter.Claim{Now: noon + 1, Min: 5, Want: 5}).Lease)
			return 0
		}},
		{"taken and put back", func(_ *testing.T, _ *limiter.State, lease *limiter.Lease) int64 {
			lease.Spend(&l, noon+1, 1)
			taken := lease.Take(&l)
			lease.Join(&l, taken)
			return 1
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s limiter.State
			lease := l.Claim(&s, limiter.Claim{Now: noon, Min: 40, Want: 40}).Lease
			spent := tt.after(t, &s, &lease)
			if got, want := lease.Quota(&l, noon+1).Remaining, 100-spent; got != want {
				t.Errorf("%d units remain, want %d", got, want)
			}
			for range 100 - spent {
				c := limiter.Claim{Now: noon + 1, Min: 1, Want: 1, Return: lease.Take(&l)}
				lease.Join(&l, l.Claim(&s, c).Lease)
				if lease.Spend(&l, noon+1, 1) {
					spent++
				}
			}
			if spent != 100 {
				t.Errorf("%d units of a burst of 100 can be spent", spent)
			}
		})
	}
}

// A grant is charged at 3 s, the lease spends at 4 s, and then they are joined: the grant was lost,
// because the lease knew of no units outside it.
func TestJoinAfterSpendingLosesNoGrant(t *testing.T) {
	l := tenPerTenSeconds(t)
	var s limiter.State
	lease := l.Claim(&s, limiter.Claim{Now: 3 * second, Min: 4, Want: 4}).Lease
	granted := l.Claim(&s, limiter.Claim{Now: 3 * second, Min: 4, Want: 4}).Lease
	if !lease.Spend(&l, 4*second, 1) {
		t.Fatal("1 of 4 units can't be spent")
	}
	lease.Join(&l, granted)
	if got := lease.Worth(&l, 4*second); got != 5 { // one of each has drained
		t.Errorf("two leases of 4, a second later and 1 of them spent, are worth %d, want 5", got)
	}
}

// The sum of a damaged file's slots did not fit, and Retry was shorter than it.
func TestRetryWithSlotsThatDoNotAddUp(t *testing.T) {
	l := mustNew(t, limiter.Params{Amount: 5, Window: 10 * time.Second})
	s := limiter.State{Slots: []limiter.Slot{{Index: 1, Used: math.MaxInt64}, {Index: 2, Used: math.MaxInt64}}}
	c := limiter.Claim{Now: 3 * second, Min: 1, Want: 1}
	checkRetry(t, l, s, c, l.Claim(&s, c))
}

// A negative number of units in a slot was read as more than the amount of any limit.
func TestNegativeSlotIsEmpty(t *testing.T) {
	l := mustNew(t, limiter.Params{Amount: 5, Window: 10 * time.Second})
	for _, used := range []int64{-1, math.MinInt64} {
		s := limiter.State{Slots: []limiter.Slot{{Index: 3, Used: used}}}
		if g := l.Claim(&s, limiter.Claim{Now: 3 * second, Min: 5, Want: 5}); g.Units != 5 || g.Used != 5 {
			t.Errorf("slot with %d units: granted %+v, want 5 units", used, g)
		}
	}
}

// The distance of a time far ahead did not fit, and was taken for zero.
func TestBucketFarAheadIsEmpty(t *testing.T) {
	l := tenPerTenSeconds(t)
	s := limiter.State{Bucket: limiter.Bucket{At: math.MaxInt64, Units: 10}}
	c := limiter.Claim{Now: -second, Min: 1, Want: 1}
	if g := l.Claim(&s, c); g.Refused(c) {
		t.Errorf("a bucket filled in the year 2262 refuses a claim: %+v", g)
	}
}

// The zero value was taken for a bucket of 1970, and drained only from then on.
func TestEmptyBucketBeforeTheEpoch(t *testing.T) {
	l := tenPerTenSeconds(t)
	var s limiter.State
	l.Claim(&s, limiter.Claim{Now: -9 * second, Min: 10, Want: 10})
	if g := l.Claim(&s, limiter.Claim{Now: -4 * second, Want: 10}); g.Units != 5 {
		t.Errorf("%d of 10 units are free after 5 s, want 5", g.Units)
	}
}

// A delayed claim found a bucket further ahead than its window, considered it damaged, and was
// granted the units of another claim.
func TestClaimHeldUpOnItsWay(t *testing.T) {
	l, err := limiter.New(limiter.Params{Algorithm: limiter.TokenBucket, Amount: 1, Window: limiter.MinWindow})
	if err != nil {
		t.Fatal(err)
	}
	var s limiter.State
	l.Claim(&s, limiter.Claim{Now: 30 * second, Min: 1, Want: 1})
	c := limiter.Claim{Now: 1 * second, Min: 1, Want: 1}
	if g := l.Claim(&s, c); !g.Refused(c) {
		t.Errorf("the second unit within 100ms is granted: %+v", g)
	}
}

// A claim whose time lies behind the charges of others, because their clocks differ or it was
// delayed, did not count units charged ahead of its time: 66 units of 64 were admitted in 0.9 s.
func TestClaimCountsWhatOthersChargedAhead(t *testing.T) {
	l := mustNew(t, limiter.Params{Amount: 64, Window: time.Second, Slots: 10})
	for _, behind := range []int64{0, second / 2, second * 9 / 10, second - 1} {
		var s limiter.State
		first := l.Claim(&s, limiter.Claim{Now: behind, Min: 1, Want: 1, Extra: 1, Ahead: 5})
		if first.Units == 0 || first.At != l.Slot(behind)+5 {
			t.Fatalf("got %+v, want a grant charged ahead", first)
		}
		if g := l.Claim(&s, limiter.Claim{Now: 0, Min: 64, Want: 64}); g.Units > 0 {
			t.Errorf("%d units beside %d admitted within %v", g.Units, first.Units, time.Duration(behind))
		}
	}
}
