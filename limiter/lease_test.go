package limiter_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

func TestLeaseEndsWithItsSlot(t *testing.T) {
	for _, tt := range []struct {
		p   limiter.Params
		end int64
	}{
		{limiter.Params{Amount: 10, Window: 10 * time.Second, Slots: 10}, second},
		{limiter.Params{Algorithm: limiter.Fixed, Amount: 10, Window: 10 * time.Second}, 10 * second},
	} {
		l := mustNew(t, tt.p)
		var s limiter.State
		lease := l.Claim(&s, limiter.Claim{Min: 4, Want: 4}).Lease
		if got := lease.Worth(&l, tt.end-1); got != 4 {
			t.Errorf("%v: worth %d in the last instant of its slot, want 4", tt.p.Algorithm, got)
		}
		if got := lease.Worth(&l, tt.end); got != 0 {
			t.Errorf("%v: worth %d after its slot, want 0", tt.p.Algorithm, got)
		}
		if lease.Spend(&l, tt.end, 1) {
			t.Errorf("%v: spent after its slot", tt.p.Algorithm)
		}
		expiry := l.Expiry(lease.At)
		if got := lease.Settles(&l, expiry-1); got != 4 {
			t.Errorf("%v: giving it back while its charge counts would free %d, want 4", tt.p.Algorithm, got)
		}
		if got := lease.Settles(&l, expiry); got != 0 {
			t.Errorf("%v: giving it back afterwards would free %d, want 0", tt.p.Algorithm, got)
		}
		if g := l.Claim(&s, limiter.Claim{Now: tt.end, Want: 10, Return: lease}); g.Units != 10 {
			t.Errorf("%v: %d units are free when it is given back, want 10", tt.p.Algorithm, g.Units)
		}
	}
}

// When leases that were charged ahead are given back, their spent units are moved to the slot of
// now: all of them, once, and no units that others hold there.
func TestSpentOfLeasesAhead(t *testing.T) {
	l := mustNew(t, limiter.Params{Amount: 1000, Window: 10 * time.Second, Slots: 10})
	var s limiter.State
	c := limiter.Claim{Min: 1, Want: 1, Extra: 9, Ahead: 7}
	other := l.Claim(&s, c).Lease
	var lease limiter.Lease
	for range 4 {
		lease.Join(&l, l.Claim(&s, c).Lease)
		lease.Spend(&l, 0, 1)
		lease.Join(&l, l.Claim(&s, c).Lease)
		lease.Spend(&l, 0, 2)
		l.Claim(&s, limiter.Claim{Return: lease.Take(&l)})
	}
	want := []limiter.Slot{{Index: 0, Used: 12}, {Index: other.At, Used: other.Units}}
	if other.At != 7 || !reflect.DeepEqual(s.Slots, want) {
		t.Errorf("got %+v, want %+v", s.Slots, want)
	}
}

// The units of a lease are free when it is given back, and the spent units of a lease charged ahead
// are moved.
func TestSettles(t *testing.T) {
	l := mustNew(t, limiter.Params{Amount: 1000, Window: 10 * time.Second, Slots: 10})
	for _, tt := range []struct{ ahead, now, settles int64 }{
		{0, 0, 3}, {0, 5 * second, 3}, {4, 0, 5}, {4, 4*second - 1, 5}, {4, 4 * second, 3}, {4, 15 * second, 0},
	} {
		var s limiter.State
		lease := l.Claim(&s, limiter.Claim{Min: 1, Want: 1, Extra: 4, Ahead: tt.ahead}).Lease
		lease.Spend(&l, 0, 2)
		if got := lease.Settles(&l, tt.now); got != tt.settles {
			t.Errorf("%+v: giving it back settles %d", tt, got)
		}
	}
}

// Large grants, and those of keys that have used much, are charged fewer slots ahead.
func TestGrantsAhead(t *testing.T) {
	l := mustNew(t, limiter.Params{Amount: 640, Window: 10 * time.Second, Slots: 10})
	for _, tt := range []struct {
		used, want, extra int64
		at                int64
	}{
		{0, 1, 1, 7}, {0, 1, 0, 0}, {0, 10, 10, 7}, {0, 11, 10, 6}, {0, 10, 11, 6}, {0, 70, 1, 1}, {0, 71, 1, 0},
		{140, 10, 10, 7}, {300, 10, 10, 5}, {550, 10, 1, 1}, {570, 10, 1, 0}, {600, 1, 1, 0},
	} {
		var s limiter.State
		l.Claim(&s, limiter.Claim{Want: tt.used})
		if g := l.Claim(&s, limiter.Claim{Min: tt.want, Want: tt.want, Extra: tt.extra, Ahead: 7}); g.At != tt.at || g.Units != tt.want+tt.extra {
			t.Errorf("%+v: got %+v", tt, g)
		}
	}
}

func TestSlow(t *testing.T) {
	l := mustNew(t, limiter.Params{Amount: 120, Window: time.Minute}) // 2 a slot, a quarter of which is 1 in 2
	largest := mustNew(t, limiter.Params{Amount: limiter.MaxAmount, Window: time.Minute, Slots: limiter.MaxSlots})
	for _, tt := range []struct {
		name      string
		l         limiter.Limit
		met, used int64
		now       int64 // in slots
		want      bool
	}{
		{"its first slot is not over", l, 5, 0, 5, false},
		{"used, and perhaps at once", l, 5, 1, 6, false},
		{"a slot has passed as a whole", l, 5, 1, 7, false},
		{"two have", l, 5, 1, 8, true},
		{"less than a quarter", l, 5, 15, 64, true},
		{"a quarter, too soon", l, 5, 30, 65, false},
		{"a quarter", l, 5, 30, 66, true},
		{"more than a quarter, and known for long", l, 5, 31, 1001, false},
		{"the largest", largest, 0, limiter.MaxAmount, 1 << 40, false},
	} {
		ls := limiter.Lease{Used: tt.used + 7, Units: 7}
		if got := ls.Slow(&tt.l, tt.met, tt.now*int64(tt.l.Window())/tt.l.Slots()); got != tt.want {
			t.Errorf("%s: slow is %v", tt.name, got)
		}
	}
}

func TestJoinSlots(t *testing.T) {
	l := mustNew(t, limiter.Params{Amount: 10, Window: 10 * time.Second})
	for _, tt := range []struct {
		name           string
		lease, granted limiter.Lease
		want, back     limiter.Lease
	}{
		{"no lease", limiter.Lease{}, limiter.Lease{Units: 2, At: 5, Used: 3},
			limiter.Lease{Units: 2, At: 5, Used: 3}, limiter.Lease{}},
		{"spent lease", limiter.Lease{At: 5, Used: 9}, limiter.Lease{Units: 2, At: 6, Used: 3},
			limiter.Lease{Units: 2, At: 6, Used: 3}, limiter.Lease{At: 5, Used: 9}},
		{"spent lease ahead", limiter.Lease{At: 9, Used: 9, Spent: 4}, limiter.Lease{Units: 2, At: 6, Used: 3},
			limiter.Lease{Units: 2, At: 6, Used: 3}, limiter.Lease{At: 9, Used: 9, Spent: 4}},
		{"same slot", limiter.Lease{Units: 1, At: 5, Used: 3}, limiter.Lease{Units: 2, At: 5, Used: 5},
			limiter.Lease{Units: 3, At: 5, Used: 5}, limiter.Lease{}},
		{"later slot", limiter.Lease{Units: 1, At: 5, Used: 3}, limiter.Lease{Units: 2, At: 6, Used: 5},
			limiter.Lease{Units: 2, At: 6, Used: 5}, limiter.Lease{Units: 1, At: 5, Used: 3}},
		{"earlier slot", limiter.Lease{Units: 1, At: 5, Used: 3}, limiter.Lease{Units: 2, At: 4, Used: 5},
			limiter.Lease{Units: 1, At: 5, Used: 3}, limiter.Lease{Units: 2, At: 4, Used: 5}},
		{"spread, same slot", limiter.Lease{Units: 1, At: 5, Used: 3}, limiter.Lease{Units: 2, At: 5, Span: 2, Used: 5},
			limiter.Lease{Units: 2, At: 5, Span: 2, Used: 5}, limiter.Lease{Units: 1, At: 5, Used: 3}},
		{"spread, earlier slot", limiter.Lease{Units: 1, At: 5, Span: 1, Used: 3}, limiter.Lease{Units: 2, At: 4, Span: 2, Used: 5},
			limiter.Lease{Units: 2, At: 4, Span: 2, Used: 5}, limiter.Lease{Units: 1, At: 5, Span: 1, Used: 3}},
		{"same slot, was spread", limiter.Lease{Units: 1, At: 5, Span: 1, Used: 3}, limiter.Lease{Units: 2, At: 5, Used: 5},
			limiter.Lease{Units: 2, At: 5, Used: 5}, limiter.Lease{Units: 1, At: 5, Span: 1, Used: 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lease := tt.lease
			if back := lease.Join(&l, tt.granted); lease != tt.want || back != tt.back {
				t.Errorf("got %+v and %+v back, want %+v and %+v", lease, back, tt.want, tt.back)
			}
		})
	}
}

// Grants of one batch have one time, and may be joined in any order.
func TestJoinOutOfOrder(t *testing.T) {
	for _, at := range []int64{noon, -noon} {
		l := mustNew(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 10, Window: 10 * time.Second})
		var s limiter.State
		first := l.Claim(&s, limiter.Claim{Now: at, Min: 5, Want: 5}).Lease
		second := l.Claim(&s, limiter.Claim{Now: at, Min: 3, Want: 3}).Lease
		var lease limiter.Lease
		lease.Join(&l, second)
		lease.Join(&l, first)
		if got := lease.Worth(&l, at); got != 8 {
			t.Errorf("leases of 5 and 3 are worth %d together", got)
		}
		if got, want := lease.Quota(&l, at), (limiter.Quota{Remaining: 10}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// The store lost its data: it knows neither the lease nor its spent units, and grants them again.
func TestJoinAfterTheStoreLostItsData(t *testing.T) {
	l := mustNew(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 10, Window: 10 * time.Second})
	var lost, fresh limiter.State
	lease := l.Claim(&lost, limiter.Claim{Now: noon, Min: 10, Want: 10}).Lease
	lease.Spend(&l, noon, 6)
	later := noon + 1
	granted := l.Claim(&fresh, limiter.Claim{Now: later, Min: 3, Want: 3}).Lease
	lease.Join(&l, granted)
	if got := lease.Worth(&l, later); got != 3 {
		t.Errorf("a lease of 4 that nobody knows and a grant of 3 are worth %d, want 3", got)
	}
	if got := lease.Worth(&l, later+second); got != 2 {
		t.Errorf("a second later they are worth %d, want 2: the grant drains", got)
	}

	kept := limiter.Lease{At: noon, Used: 6, Spent: 6}
	granted = l.Claim(&fresh, limiter.Claim{Now: later, Min: 1, Want: 1, Return: kept}).Lease
	if granted.Spent+granted.Units > granted.Used {
		t.Errorf("a grant knows of more that was spent than is in use: %+v", granted)
	}
	lease = limiter.Lease{Units: 3, At: noon, Used: 3}
	lease.Join(&l, limiter.Lease{Units: 1, At: later, Used: 4, Spent: 3})
	if lease.Spent+lease.Units > lease.Used {
		t.Errorf("a lease knows of more that was spent than is in use: %+v", lease)
	}
}

// Another process's clock is ahead, and so is the bucket.
func TestQuotaOfLeaseAhead(t *testing.T) {
	l := mustNew(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 10, Window: 10 * time.Second})
	var s limiter.State
	lease := l.Claim(&s, limiter.Claim{Now: noon + 2*second, Min: 5, Want: 5}).Lease
	lease.Spend(&l, noon, 3)
	if got, want := lease.Quota(&l, noon), (limiter.Quota{Remaining: 7, Reset: 5 * time.Second}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestQuota(t *testing.T) {
	fresh := func(t *testing.T, p limiter.Params, units, spent int64) (limiter.Limit, limiter.Lease) {
		l := mustNew(t, p)
		var s limiter.State
		lease := l.Claim(&s, limiter.Claim{Min: units, Want: units}).Lease
		if !lease.Spend(&l, 0, spent) {
			t.Fatalf("%d of %d units can't be spent", spent, units)
		}
		return l, lease
	}
	sliding := limiter.Params{Amount: 10, Window: 10 * time.Second, Slots: 10}
	fixed := limiter.Params{Algorithm: limiter.Fixed, Amount: 10, Window: 10 * time.Second}
	bucket := limiter.Params{Algorithm: limiter.TokenBucket, Amount: 10, Window: 10 * time.Second}
	for _, tt := range []struct {
		name         string
		p            limiter.Params
		units, spent int64
		now          int64
		want         limiter.Quota
	}{
		{"sliding", sliding, 5, 3, 0, limiter.Quota{Remaining: 7, Reset: 11*time.Second - 1}},
		{"sliding, later", sliding, 5, 3, 11*second - 2, limiter.Quota{Remaining: 7, Reset: 1}},
		{"sliding, over", sliding, 5, 3, 11*second - 1, limiter.Quota{Remaining: 10}},
		{"sliding, nothing spent", sliding, 5, 0, 0, limiter.Quota{Remaining: 10}},
		{"fixed", fixed, 5, 3, second, limiter.Quota{Remaining: 7, Reset: 9 * time.Second}},
		{"fixed, over", fixed, 5, 3, 10 * second, limiter.Quota{Remaining: 10}},
		{"bucket", bucket, 5, 3, 0, limiter.Quota{Remaining: 7, Reset: 3 * time.Second}},
		{"bucket, part of a unit", bucket, 5, 3, second / 2, limiter.Quota{Remaining: 7, Reset: 2500 * time.Millisecond}},
		{"bucket, later", bucket, 5, 3, second, limiter.Quota{Remaining: 8, Reset: 2 * time.Second}},
		{"bucket, only the lease drains", bucket, 5, 3, 3*second + second/2, limiter.Quota{Remaining: 10}},
		{"bucket, nothing left", bucket, 10, 10, 0, limiter.Quota{Remaining: 0, Reset: 10 * time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, lease := fresh(t, tt.p, tt.units, tt.spent)
			if got := lease.Quota(&l, tt.now); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	for _, p := range []limiter.Params{sliding, fixed, bucket} {
		l := mustNew(t, p)
		if got := new(limiter.Lease).Quota(&l, noon); got != (limiter.Quota{Remaining: 10}) {
			t.Errorf("%v: without a lease: got %+v, want everything", p.Algorithm, got)
		}
	}
}

// A client that waits for Reset and spends nothing has its whole amount back.
func TestResetIsEnough(t *testing.T) {
	for _, algorithm := range algorithms {
		l := mustNew(t, limiter.Params{Algorithm: algorithm, Amount: 10, Window: time.Minute})
		var s limiter.State
		for cost := int64(1); cost <= 3; cost++ {
			now := noon + cost*second
			lease := l.Claim(&s, limiter.Claim{Now: now, Min: cost, Want: cost}).Lease
			lease.Spend(&l, now, cost)
			reset := int64(lease.Quota(&l, now).Reset)
			probe := cloneState(s)
			if g := l.Claim(&probe, limiter.Claim{Now: now + reset, Want: 10}); g.Units != 10 {
				t.Errorf("%v: %d units are free after Reset, want 10", algorithm, g.Units)
			}
			probe = cloneState(s)
			if g := l.Claim(&probe, limiter.Claim{Now: now + reset - 1, Want: 10}); g.Units == 10 {
				t.Errorf("%v: 10 units are free before Reset", algorithm)
			}
		}
	}
}

// A grant that is spread is charged evenly to its slots. A unit can be spent in its slot or earlier.
// When the lease is given back, spent units stay in their slots or move to the slot of now, and all
// others are free, also those of past slots.
func TestSpreadGrants(t *testing.T) {
	l := mustNew(t, limiter.Params{Amount: 100, Window: 10 * time.Second, Slots: 10})
	type spending struct{ at, units, worth int64 } // what can be spent before
	for _, tt := range []struct {
		name   string
		spends []spending
		back   int64 // the slot in which the rest is given back
		want   []int64
	}{
		{"nothing", nil, 2, []int64{70, 0, 0, 0}},
		{"each in its slot", []spending{{0, 2, 8}, {1, 2, 6}, {2, 2, 4}, {3, 2, 2}}, 3, []int64{72, 2, 2, 2}},
		{"early", []spending{{0, 7, 8}}, 0, []int64{77, 0, 0, 0}},
		{"early, and given back later", []spending{{0, 7, 8}}, 1, []int64{72, 5, 0, 0}},
		{"late", []spending{{2, 1, 4}, {3, 1, 2}}, 3, []int64{70, 0, 1, 1}},
		{"early and late", []spending{{0, 5, 8}, {3, 1, 2}}, 3, []int64{71, 2, 2, 1}},
		{"the last slot is over", []spending{{0, 3, 8}, {4, 0, 0}}, 4, []int64{72, 1, 0, 0}},
	} {
		var s limiter.State
		l.Claim(&s, limiter.Claim{Want: 70})
		lease := l.Claim(&s, limiter.Claim{Min: 1, Want: 5, Extra: 3, Ahead: 3, Spread: true}).Lease
		if lease.Units != 8 || lease.At != 3 || lease.Span != 3 {
			t.Fatalf("granted %+v, want 8 units of slots 0 to 3", lease)
		}
		for _, spending := range tt.spends {
			now := spending.at * second
			if worth := lease.Worth(&l, now); worth != spending.worth || !lease.Spend(&l, now, spending.units) {
				t.Errorf("%s: in slot %d %+v is worth %d, want %d", tt.name, spending.at, lease, worth, spending.worth)
			}
		}
		settles := lease.Settles(&l, tt.back*second)
		before := cloneState(s)
		l.Claim(&s, limiter.Claim{Now: tt.back * second, Return: lease})
		changed := int64(0)
		for slot, want := range tt.want {
			got := usedIn(s, int64(slot))
			changed += max(usedIn(before, int64(slot))-got, 0)
			if got != want {
				t.Errorf("%s: slot %d has %d, want %d", tt.name, slot, got, want)
			}
		}
		if settles != changed {
			t.Errorf("%s: giving back settles %d, want %d", tt.name, settles, changed)
		}
	}
	for _, algorithm := range []limiter.Algorithm{limiter.Fixed, limiter.TokenBucket} {
		var s limiter.State
		l := mustNew(t, limiter.Params{Algorithm: algorithm, Amount: 100, Window: 10 * time.Second})
		if g := l.Claim(&s, limiter.Claim{Want: 1, Ahead: 3, Spread: true}); g.At != 0 || g.Span != 0 {
			t.Errorf("%v: granted %+v, want it in slot 0", algorithm, g)
		}
	}
}

// usedIn returns the units charged in a slot.
func usedIn(s limiter.State, index int64) int64 {
	for _, slot := range s.Slots {
		if slot.Index == index {
			return slot.Used
		}
	}
	return 0
}

// The more processes claim for a key, the fewer units each is granted for later: together at most
// half of the units left. The last units are granted one by one.
func TestExtraAmongProcesses(t *testing.T) {
	for _, algorithm := range algorithms {
		for _, tt := range []struct{ processes, amount, units int64 }{
			{0, 81, 11}, {-3, 81, 11}, {4, 81, 11}, {5, 81, 9}, {20, 81, 3}, {40, 81, 2}, {41, 81, 1}, {limiter.MaxAmount * 2, 81, 1}, {2, 5, 1},
		} {
			l := mustNew(t, limiter.Params{Algorithm: algorithm, Amount: tt.amount, Window: time.Minute})
			var s limiter.State
			if g := l.Claim(&s, limiter.Claim{Now: noon, Min: 1, Want: 1, Extra: 100, Processes: tt.processes}); g.Units != tt.units {
				t.Errorf("%v among %d: granted %d of %d, want %d", algorithm, tt.processes, g.Units, tt.amount, tt.units)
			}
		}
	}
}

// The units that drain while a lease lasts are not free before. A lease doesn't last if there is no room for
// them: no bucket has more units in use than it can have.
func TestLeaseLastsIfThereIsRoom(t *testing.T) {
	l := mustNew(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 160, Window: time.Second})
	now := int64(time.Hour)
	for want := int64(1); want < 160-8; want++ {
		var s limiter.State
		g := l.Claim(&s, limiter.Claim{Now: now, Min: want, Want: want, Extra: 1, Lasts: l.MaxLasts()})
		if lasts := g.At > now; g.Units != want+1 || lasts != (g.Units+10 <= 160) { // 10 drain in the time that it may last
			t.Errorf("a claim of %d is granted %+v", want, g)
		}
		free := 160 - g.InUseAt(&l, now)
		if others := l.Claim(&s, limiter.Claim{Now: now, Min: free, Want: free}); others.Units != free || free < 0 {
			t.Errorf("after a grant of %d units others are granted %d of %d", g.Units, others.Units, free)
		}
	}
}

// A lease that lasts keeps its worth until its time, and the units that drain from the bucket until
// then are not available to others.
func TestLeaseThatLasts(t *testing.T) {
	l := mustNew(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 600, Window: time.Minute})
	const second = int64(time.Second)
	var s limiter.State
	g := l.Claim(&s, limiter.Claim{Now: 100 * second, Min: 1, Want: 1, Extra: 50, Lasts: second})
	if g.Units != 51 || g.At != 101*second || g.Lease.Worth(&l, 101*second) != 51 {
		t.Fatalf("granted %+v, want 51 units that last a second", g)
	}
	if worth := g.Lease.Worth(&l, 103*second); worth != 31 {
		t.Errorf("two seconds after its time it is worth %d, want 31", worth)
	}
	for _, tt := range []struct{ now, free int64 }{{100 * second, 539}, {100*second + second/2, 544}, {101 * second, 549}, {102 * second, 559}} {
		if used := g.Lease.InUseAt(&l, tt.now); used != 600-tt.free {
			t.Errorf("%v: %d in use, want %d", time.Duration(tt.now), used, 600-tt.free)
		}
		probe := cloneState(s)
		refused := l.Claim(&probe, limiter.Claim{Now: tt.now, Min: tt.free + 1, Want: tt.free + 1})
		if refused.Units > 0 || refused.Retry != time.Second/10 {
			t.Errorf("%v: a claim of %d: %+v, want it refused until a unit is free", time.Duration(tt.now), tt.free+1, refused)
		}
		if all := l.Claim(&probe, limiter.Claim{Now: tt.now, Min: tt.free, Want: tt.free}); all.Units != tt.free {
			t.Errorf("%v: a claim of %d: %+v", time.Duration(tt.now), tt.free, all)
		}
	}
}

// Of a spread grant whose first slots are over, Settle books no debt before its slot.
func TestDebtsAreNotSettledBySpreadGrants(t *testing.T) {
	l := mustNew(t, limiter.Params{Amount: 100, Window: 10 * time.Second, Slots: 10})
	var s limiter.State
	g := l.Claim(&s, limiter.Claim{Min: 1, Want: 1, Extra: 7, Ahead: 3, Spread: true}).Lease
	now := int64(3 * time.Second)
	debts := limiter.Debts{{At: 3, Units: 4}}
	rest, back := debts.Settle(&l, &g, now)
	owed := int64(0)
	for _, d := range rest {
		owed += d.Units
	}
	l.Claim(&s, limiter.Claim{Now: now, Return: back})
	l.Claim(&s, limiter.Claim{Now: now, Return: g})
	if got := usedIn(s, 3) + owed; got < 4 || back.Units+g.Units == 0 {
		t.Errorf("4 units were spent in slot 3: %+v, still owed %d; granted %+v back %+v", s, owed, g, back)
	}
}
