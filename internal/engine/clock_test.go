package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// A step of the wall clock has a bounded effect on a limit: none, or for a step too large to slew,
// once and after a while, the effect of the shown time. No client is refused for longer than a
// window, and an engine that starts later finds the time unchanged.
func TestClockSteps(t *testing.T) {
	const day = 24 * time.Hour
	const window, slot = 30 * day, 30 * day / 60
	for _, algorithm := range algorithms {
		for _, c := range []struct {
			by       time.Duration
			patience time.Duration
			refill   int
		}{
			{+time.Hour, 2 * time.Hour, 0},
			{-time.Hour, 2 * time.Hour, 0},
			{+3650 * day, time.Minute, 6},
			{-3650 * day, time.Hour, 6},
			{-10 * day, time.Hour, 6},
		} {
			for _, restart := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v %v restart=%v", algorithm, c.by, restart), func(t *testing.T) {
					limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 6, Window: window})
					clock := newFakeClock()
					clock.wall.Add(int64(window/2 + slot/2 - time.Duration(clock.wall.Load())%window)) // far from an edge
					f := startOn(t, newDisk(), clock)
					check := func(want int) {
						t.Helper()
						if got := f.count(10, debit(limit, "a", 1)); got != want {
							t.Errorf("%d passed, want %d", got, want)
						}
						longest := window + slot + window/storage.Slew + 1
						if d := f.ask(debit(limit, "a", 1)); d.Retry <= 0 || d.Retry > longest {
							t.Errorf("told to wait for %v, want at most %v", d.Retry, longest)
						}
					}
					check(6)
					clock.wall.Add(int64(c.by))
					clock.advance(time.Millisecond)
					if restart {
						f.Close(context.Background())
						f = startOn(t, f.disk, clock)
						<-f.Ready()
					}
					check(0)
					f.ask(debit(limit, "b", 1)) // its claim detects the step, and starts the waiting period
					slewed := c.patience / (storage.Slew / 2)
					clock.advance(c.patience - slewed)
					f.ask(debit(limit, "c", 1))
					check(0)
					clock.advance(2 * slewed)
					f.ask(debit(limit, "d", 1))
					check(c.refill)
					clock.advance(window + slot + window/storage.Slew + 1)
					check(6)
				})
			}
		}
	}
}

// A process that sleeps, and whose own clock stands still, spends nothing of its earlier lease.
func TestLeasesEndInSleep(t *testing.T) {
	limit := sliding(t, 100, time.Minute)
	f := newFixture(t)
	if got := f.count(3, debit(limit, "a", 1)); got != 3 {
		t.Fatalf("%d of 3 passed", got)
	}
	f.fake.slept.Add(int64(time.Hour))
	f.fake.wall.Add(int64(time.Hour))
	f.fake.advance(2 * time.Millisecond)
	before := f.store.claims.Load()
	if !f.ask(debit(limit, "a", 1)).Allowed {
		t.Error("refused after an hour")
	}
	if f.store.claims.Load() == before {
		t.Error("a lease of an hour ago was spent")
	}
}

// Units granted to a process that is stopped meanwhile are not spent as of the time of the grant.
func TestGrantsThatComeLateAreNotSpent(t *testing.T) {
	limit := sliding(t, 10, time.Second)
	f := newFixture(t)
	<-f.Ready()
	var at []int64
	f.store.after = func() error {
		at = append(at, f.disk.time(f.fake.Elapsed()).Now)
		if len(at) == 1 {
			f.fake.advance(time.Minute)
		}
		return nil
	}
	ds := []Debit{debit(limit, "a", 1)}
	if d := f.ask(ds...); !d.Allowed || len(at) != 2 {
		t.Fatalf("decided %+v with %d batches, want 2", d, len(at))
	}
	if ds[0].at != at[1] {
		t.Errorf("admitted as of %v after the first batch, want %v", time.Duration(ds[0].at-at[0]), time.Duration(at[1]-at[0]))
	}
}

// A ban known to memory and an unknown one last as long as they would have if the time had not been
// set, in both directions.
func TestBansOutlastSteps(t *testing.T) {
	for _, by := range []time.Duration{-1000 * time.Hour, 1000 * time.Hour} {
		for _, restart := range []bool{false, true} {
			f := newFixture(t)
			client := &Client{Key: []byte("a")}
			limit := sliding(t, 1000, time.Hour)
			ask := func() Decision {
				c := *client
				return f.Decide(context.Background(), &c, []Debit{debit(limit, "a", 1)})
			}
			ask()
			f.Punish(client, banningFor(24*time.Hour))
			eventually(t, func() bool { return f.disk.record("a", f.clock.Now()).Until > 0 })
			f.fake.wall.Add(int64(by))
			f.ask(debit(limit, "b", 1))
			f.fake.advance(2 * time.Hour)
			f.ask(debit(limit, "c", 1)) // sets the time
			if restart {
				f.Close(context.Background())
				f = startOn(t, f.disk, f.fake)
				<-f.Ready()
			}
			if f.disk.time(0).Shift == 0 {
				t.Fatal("the time was not set")
			}
			if d := ask(); d.Reason != Banned || (d.Retry-22*time.Hour).Abs() > 2*time.Hour/storage.Slew+time.Second {
				t.Errorf("after a step of %v, restart=%v: %+v, want a ban for 22h", by, restart, d)
			}
		}
	}
}
