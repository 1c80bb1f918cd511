package region_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/region"
)

const (
	start  = int64(1_800_000_000e9)
	second = int64(time.Second)
	minute = int64(time.Minute)
)

func limitOf(t testing.TB, p limiter.Params) limiter.Limit {
	t.Helper()
	l, err := limiter.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func groupsOf(t testing.TB, l limiter.Limit) region.Groups {
	t.Helper()
	g, shared := region.GroupsOf(l)
	if !shared {
		t.Fatalf("a limit of %v per %v stays regional", l.Amount(), l.Window())
	}
	return g
}

func TestShortWindowsStayRegional(t *testing.T) {
	for window, want := range map[time.Duration]bool{time.Second: false, time.Minute - 1: false, time.Minute: true, time.Hour: true, limiter.MaxWindow: true} {
		for _, a := range []limiter.Algorithm{limiter.Sliding, limiter.Fixed, limiter.TokenBucket} {
			if _, shared := region.GroupsOf(limitOf(t, limiter.Params{Algorithm: a, Amount: 10, Window: window})); shared != want {
				t.Errorf("%v of %v: shared %v, want %v", a, window, shared, want)
			}
		}
	}
}

// event is a number of units admitted at a time.
type event struct{ at, units int64 }

// oracle keeps a log of all events of one limit, and reads all of it every time.
type oracle struct {
	p   limiter.Params
	log []event
}

// until returns the time until which an event counts: its group as a whole, for a window after its
// end.
func (o *oracle) until(e event) int64 {
	w := int64(o.p.Window)
	if o.p.Algorithm == limiter.Fixed {
		return (e.at/w + 1) * w
	}
	end := e.at
	for width := (w + 7) / 8; end%width != 0 || end == e.at; {
		end += width - end%width
	}
	return end - 1 + w
}

func (o *oracle) inForce(now int64) (units int64) {
	for _, e := range o.log {
		if now < o.until(e) {
			units += e.units
		}
	}
	return units
}

func (o *oracle) retry(cost, now int64) time.Duration {
	if cost > o.p.Amount {
		return limiter.Never
	}
	best := int64(-1)
	for _, e := range append(o.log, event{}) {
		at := now
		if e.units > 0 {
			at = max(o.until(e), now)
		}
		if o.inForce(at)+cost <= o.p.Amount && (best < 0 || at-now < best) {
			best = at - now
		}
	}
	return time.Duration(best)
}

// The units in force, and their duration, match a log of all events.
func FuzzGroups(f *testing.F) {
	f.Add(uint64(1), false)
	f.Add(uint64(2), true)
	f.Fuzz(func(t *testing.T, seed uint64, fixed bool) {
		r := rand.New(rand.NewPCG(seed, 0))
		p := limiter.Params{Amount: 1 + r.Int64N(100), Window: time.Minute + time.Duration(r.Int64N(int64(time.Hour)))}
		if fixed {
			p.Algorithm = limiter.Fixed
		}
		g, o := groupsOf(t, limitOf(t, p)), &oracle{p: p}
		var own region.Own
		var counts region.Counts
		now := start + r.Int64N(minute)
		totals := make(map[int64]int64)
		for range 60 {
			now += r.Int64N(int64(p.Window) / 10)
			units, group := 1+r.Int64N(20), g.At(now)
			o.log = append(o.log, event{now, units})
			if r.IntN(2) == 0 {
				own.Add(group, units)
			} else {
				totals[group] += units
				counts.Take(region.Component{Region: "b"}, group, totals[group], g.Expires(group))
			}
			_, foreign := counts.Split("a")
			all := region.Sum(own.Units(), foreign)
			if got, want := g.InForce(all, now), o.inForce(now); got != want {
				t.Fatalf("%+v: %d units are in force, want %d", p, got, want)
			}
			cost := 1 + r.Int64N(p.Amount+1)
			if got, want := g.Retry(all, p.Amount, cost, now), o.retry(cost, now); got != want {
				t.Fatalf("%+v: %d units are free after %v, want %v", p, cost, got, want)
			}
			if r.IntN(8) == 0 {
				own.Trim(g.Oldest(now))
				counts.Trim(now)
			}
		}
	})
}

// A count that arrives late, twice or in another order changes nothing.
func TestCountsArriveInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	type row struct {
		component    region.Component
		group, units int64
	}
	var rows []row
	want := make(map[int64]int64)
	for group := range int64(9) {
		for machine := range int64(3) {
			units := int64(0)
			for range 5 {
				units += 1 + r.Int64N(9)
				rows = append(rows, row{region.Component{Region: "b", Machine: machine}, group, units})
			}
			want[group] += units
		}
	}
	for range 20 {
		var counts region.Counts
		grown := int64(0)
		twice := append(rows, rows...)
		r.Shuffle(len(twice), func(i, j int) { twice[i], twice[j] = twice[j], twice[i] })
		for _, row := range twice {
			grown += counts.Take(row.component, row.group, row.units, 1)
		}
		own, foreign := counts.Split("a")
		if len(own) != 0 || len(foreign) != 9 {
			t.Fatalf("%v and %v", own, foreign)
		}
		for _, s := range foreign {
			if s.Used != want[s.Index] {
				t.Errorf("group %d has %d units, want %d", s.Index, s.Used, want[s.Index])
			}
			grown -= s.Used
		}
		if grown != 0 {
			t.Errorf("what grew is %d more than what there is", grown)
		}
	}
}

// Machines that hide as many units as they may hide together a quarter of the amount.
func TestHiddenUnits(t *testing.T) {
	for _, amount := range []int64{1, 2, 5, 7, 100, 1000, 1 << 40} {
		for others := 1; others < 20; others++ {
			hidden := int64(0)
			for own := amount / 4; own > 0; own-- {
				if !region.Publishes(own, amount, others) {
					hidden = own
					break
				}
			}
			if 4*hidden*int64(others) > amount {
				t.Errorf("%d machines hide %d of %d each", others, hidden, amount)
			}
			if !region.Publishes(amount/4+1, amount, others) {
				t.Errorf("%d machines hide more than a quarter of %d", others, amount)
			}
			if amount > 1000 {
				break // the loop takes as long as the amount is large
			}
		}
	}
	if region.Publishes(10, 10, 0) {
		t.Error("a machine publishes for nobody")
	}
}

func TestLevelOfABucket(t *testing.T) {
	l := limitOf(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 60, Window: time.Minute, Burst: 100})
	g := groupsOf(t, l)
	now := start + 100*second
	group := func(ago int64) int64 { return g.At(now - ago*second) }
	for name, c := range map[string]struct {
		units []limiter.Slot
		least int64
		most  int64
	}{
		"nothing":               {nil, 0, 0},
		"just now":              {[]limiter.Slot{{Index: group(0), Used: 50}}, 50, 50},
		"30s ago":               {[]limiter.Slot{{Index: group(30), Used: 50}}, 20, 33},
		"90s ago, drained":      {[]limiter.Slot{{Index: group(90), Used: 50}}, 0, 0},
		"more than the burst":   {[]limiter.Slot{{Index: group(0), Used: 500}}, 100, 100},
		"in a future too far":   {[]limiter.Slot{{Index: g.Newest(now) + 1, Used: 50}}, 0, 0},
		"two groups, one drops": {[]limiter.Slot{{Index: group(60), Used: 10}, {Index: group(0), Used: 7}}, 7, 7},
	} {
		if got := g.Level(l, c.units, now); got < c.least || got > c.most {
			t.Errorf("%s: the level is %d, want %d to %d", name, got, c.least, c.most)
		}
	}
}

func ExampleGroups() {
	limit, _ := limiter.New(limiter.Params{Amount: 100, Window: time.Hour})
	groups, _ := region.GroupsOf(limit)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixNano()

	var counts region.Counts // of other regions
	group := groups.At(noon)
	counts.Take(region.Component{Region: "us"}, group, 70, groups.Expires(group))
	_, foreign := counts.Split("eu")

	fmt.Println("in force:", groups.InForce(foreign, noon))
	fmt.Println("40 are free after", groups.Retry(foreign, limit.Amount(), 40, noon).Round(time.Second))
	// Output:
	// in force: 70
	// 40 are free after 1h7m30s
}
