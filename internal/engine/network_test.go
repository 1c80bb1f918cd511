package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// scaled returns a debit of a client whose record scales a limit.
func scaled(l *Limit, client string, cost int64) Debit {
	d := debit(l, client, cost)
	d.Client, d.Scaling = &Client{Key: []byte(client)}, new(Scaling)
	for level := range d.Scaling.Levels {
		d.Scaling.Levels[level] = &Limit{ID: l.ID, Rate: l.Scale(reputation.Level(level).Share())}
	}
	d.Scaling.Levels[0] = l
	return d
}

// A request unknown to memory waits for the call under way and for its own, even if its client's
// record must be read.
func TestColdRequestsWaitForTwoRoundTrips(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const trip = 20 * time.Millisecond
		f := newFleet(t, trip)
		m, limit := f.start(0), sliding(t, 100, time.Minute)
		defer m.Close(t.Context())
		random := rand.New(rand.NewPCG(1, 2))
		var all sync.WaitGroup
		for i := range 1000 {
			time.Sleep(time.Duration(random.Int64N(int64(4 * time.Millisecond))))
			all.Go(func() {
				start := time.Now()
				if d := m.ask(scaled(limit, fmt.Sprint("client", i), 1)); !d.Allowed || d.Degraded {
					t.Errorf("request %d: %+v", i, d)
				}
				if took := time.Since(start); took > 2*trip+2*time.Millisecond {
					t.Errorf("request %d took %v", i, took)
				}
			})
		}
		all.Wait()
	})
}

// A client whose record is read only with its first claim gets the limit of its level and no more,
// and the correct retry time for that.
func TestColdClientsOfBadRepute(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, 5*time.Millisecond)
		m, limit := f.start(0), sliding(t, 100, time.Minute)
		defer m.Close(t.Context())
		for i, used := range []int64{0, 9, 10, 50, 100} {
			name := fmt.Sprint("bad", i)
			f.disk.Load().spoil(name, m.Now())
			f.disk.Load().claim(limit, name, limiter.Claim{Now: m.Now() - int64(50*time.Second), Want: used / 2})
			f.disk.Load().claim(limit, name, limiter.Claim{Now: m.Now() - int64(10*time.Second), Want: used - used/2})
			want := int(max(10-used, 0)) // of the worst level
			got, refused := 0, Decision{Allowed: true}
			for refused.Allowed {
				if refused = m.ask(scaled(limit, name, 1)); refused.Allowed {
					got++
				}
			}
			if got != want {
				t.Errorf("%d used: %d allowed, want %d", used, got, want)
			}
			if refused.Allowed || refused.Retry < 9*time.Second || used > 20 && refused.Retry < 45*time.Second {
				t.Errorf("%d used: %+v, want a wait until little is used", used, refused)
			}
			time.Sleep(refused.Retry)
			if again := m.ask(scaled(limit, name, 1)); !again.Allowed {
				t.Errorf("%d used: refused again: %+v", used, again)
			}
		}
	})
}

// A key in constant use never waits after its first requests, and needs few calls.
func TestLeasesAreRenewedEarly(t *testing.T) {
	for _, algorithm := range []limiter.Algorithm{limiter.Sliding, limiter.TokenBucket} {
		for _, trip := range []time.Duration{time.Millisecond, 20 * time.Millisecond} {
			for _, machines := range []int{1, 4} {
				t.Run(fmt.Sprint(algorithm, trip, machines), func(t *testing.T) {
					bubble.Test(t, func(t *testing.T) { testRenewal(t, algorithm, trip, machines) })
				})
			}
		}
	}
}

// However many leases are almost used up at a time, a request unknown to memory waits for two round
// trips.
func TestRenewalsDontHoldUpOthers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const trip, keys = 20 * time.Millisecond, 1000
		f := newFleet(t, trip)
		m := f.start(0, func(o *Options) { o.StoreTimeout = time.Second })
		limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 10_000, Window: time.Hour})
		defer m.Close(t.Context())
		ask := func(key string) Decision { return m.ask(debit(limit, key, 1)) }
		var all sync.WaitGroup
		for i := range keys {
			all.Go(func() { ask(fmt.Sprint("key", i)) })
		}
		all.Wait()
		for i := range keys {
			key := fmt.Sprint("key", i)
			for c := m.table.find(limit.ID, []byte(key)); c.lease.units > 1; {
				if d := ask(key); d.Waited > 0 {
					t.Fatalf("%s: %+v", key, d)
				}
			}
		}
		if d := ask("cold"); !d.Allowed || d.Degraded || d.Waited > 2*trip+2*time.Millisecond {
			t.Errorf("a request of another key: %+v", d)
		}
	})
}

func testRenewal(t *testing.T, algorithm limiter.Algorithm, trip time.Duration, machines int) {
	f := newFleet(t, trip)
	limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 10_000, Window: time.Minute})
	var all []*machine
	for range machines {
		all = append(all, f.start(0))
	}
	const perSecond = 133 // 80 % of the limit
	waited, calls, requests := 0, int64(0), 0
	for second := range 150 {
		if second == 10 {
			waited, calls, requests = 0, f.calls.Load(), 0
		}
		for i := range perSecond {
			d := all[i%machines].ask(debit(limit, "key", 1))
			if !d.Allowed {
				t.Fatalf("refused in second %d: %+v", second, d)
			}
			if requests++; d.Waited > 0 {
				waited++
			}
			time.Sleep(time.Second/perSecond - d.Waited)
		}
	}
	perRequest := float64(f.calls.Load()-calls) / float64(requests)
	t.Logf("%.3f calls per request, %d of %d waited", perRequest, waited, requests)
	if perRequest > 0.03*float64(machines) || waited > requests/1000 {
		t.Errorf("%.3f calls per request, %d of %d waited", perRequest, waited, requests)
	}
	for _, m := range all {
		m.Close(t.Context())
	}
}

// Leases of several machines don't use up a little-used bucket, so a burst passes.
func TestBurstsPassOnManyMachines(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, time.Millisecond)
		limit := newLimit(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 10_000, Window: time.Minute})
		var all []*machine
		for range 4 {
			all = append(all, f.start(0))
		}
		for _, m := range all {
			m.committer.conn.join()
		}
		for i := range 16 * 60 { // 16 a second
			if d := all[i%4].ask(debit(limit, "key", 1)); !d.Allowed {
				t.Fatal(d)
			}
			time.Sleep(time.Second / 16)
		}
		if d := all[0].ask(debit(limit, "key", 7000)); !d.Allowed {
			t.Errorf("a burst: %+v", d)
		}
		for _, m := range all {
			m.Close(t.Context())
		}
	})
}

// Machines that start together know of one another soon: each has its share of a limit if the store
// can't be used then.
func TestMachinesKnowOfOneAnother(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, time.Millisecond)
		var all []*machine
		for range 4 {
			all = append(all, f.start(0))
		}
		time.Sleep(time.Second)
		for i, m := range all {
			if n := m.Stats(t.Context()).Processes; n != 4 {
				t.Errorf("machine %d knows of %d, want 4", i, n)
			}
			defer m.Close(t.Context())
		}
	})
}

// A blocked key makes no calls.
func TestRefusedRequestsMakeNoCalls(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, time.Millisecond)
		m, limit := f.start(0, func(o *Options) { o.resetInterval = 1000 * time.Hour }), sliding(t, 100, time.Minute)
		defer m.Close(t.Context())
		if got := m.count(200, debit(limit, "key", 1)); got != 100 {
			t.Errorf("%d allowed, want 100", got)
		}
		synctest.Wait()
		before := f.calls.Load()
		if got := m.count(1000, debit(limit, "key", 1)); got != 0 || f.calls.Load() != before {
			t.Errorf("%d allowed, and %d calls", got, f.calls.Load()-before)
		}
	})
}

// Twenty machines use up a limit, and no more than it.
func TestManyMachinesReachTheLimit(t *testing.T) {
	for _, algorithm := range algorithms {
		for _, amount := range []int{5, 1000} {
			t.Run(fmt.Sprint(algorithm, amount), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					const machines = 20
					f, random := newFleet(t, time.Millisecond), rand.New(rand.NewPCG(1, 2))
					limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: int64(amount), Window: time.Hour})
					var all []*machine
					for range machines {
						all = append(all, f.start(0))
					}
					for _, m := range all {
						m.committer.conn.join() // as all do once a minute
					}
					allowed := 0
					for range 20 * amount { // most come to a few machines
						m := all[min(random.IntN(machines), random.IntN(machines), random.IntN(machines))]
						if m.ask(debit(limit, "key", 1)).Allowed {
							allowed++
						}
						time.Sleep(time.Duration(random.Int64N(int64(10 * time.Millisecond))))
					}
					if least := amount - amount/100; allowed < least || allowed > amount+amount/10 && algorithm == limiter.TokenBucket || allowed > amount && algorithm != limiter.TokenBucket {
						t.Errorf("%d allowed, want %d to %d", allowed, least, amount)
					}
					for _, m := range all {
						m.Close(t.Context())
					}
				})
			})
		}
	}
}

// An unused lease of a key with few units left soon becomes available to other machines.
func TestLastUnitsComeBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, limit := newFleet(t, time.Millisecond), sliding(t, 1000, time.Hour)
		one, other := f.start(0), f.start(0)
		defer one.Close(t.Context())
		defer other.Close(t.Context())
		f.disk.Load().claim(limit, "key", limiter.Claim{Now: one.Now(), Want: 900})
		if got := one.count(3, debit(limit, "key", 1)); got != 3 {
			t.Fatalf("%d allowed, want 3", got)
		}
		f.disk.Load().claim(limit, "key", limiter.Claim{Now: one.Now(), Want: 97})
		time.Sleep(2 * time.Second)
		if got := other.count(200, debit(limit, "key", 1)); got == 0 {
			t.Error("none is allowed of what one machine has given back")
		}
	})
}

// Batches are split at the maximum size of a call, and all waiting requests are answered.
func TestBatchesAreCut(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, 5*time.Millisecond)
		f.most = 10
		m, limit := f.start(0, func(o *Options) { o.StoreTimeout = time.Minute }), sliding(t, 100, time.Minute)
		var all sync.WaitGroup
		for i := range 95 {
			all.Go(func() {
				debits := []Debit{scaled(limit, fmt.Sprint("client", i), 1), debit(limit, fmt.Sprint("key", i), 1)}
				if d := m.ask(debits...); !d.Allowed || d.Degraded {
					t.Errorf("request %d: %+v", i, d)
				}
			})
		}
		all.Wait()
		if largest := f.largest.Load(); largest > 10 {
			t.Errorf("a call had %d claims", largest)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
		now := time.Now().UnixNano()
		for i := range 95 {
			for _, key := range []string{"client", "key"} {
				if used := f.disk.Load().used(limit, fmt.Sprint(key, i), now); used != 1 {
					t.Errorf("%s%d: %d used, want 1", key, i, used)
				}
			}
		}
		if largest := f.largest.Load(); largest > 10 {
			t.Errorf("a call had %d claims", largest)
		}
	})
}

// A store that stops answering delays no request for longer than the timeout, and is in use within
// two seconds after it answers again, however long that took.
func TestStoreThatAnswersNoMore(t *testing.T) {
	for name, down := range map[string]func(ctx context.Context, apply func() error) error{
		"black hole": func(ctx context.Context, _ func() error) error { <-ctx.Done(); return ctx.Err() },
		"unknown":    func(ctx context.Context, _ func() error) error { return storage.ErrUnknownOutcome },
		"refused":    func(context.Context, func() error) error { return errDisk },
		"half applied": func(ctx context.Context, apply func() error) error {
			apply()
			<-ctx.Done()
			return storage.ErrUnknownOutcome
		},
	} {
		for _, lasts := range []time.Duration{time.Second, 10 * time.Minute} {
			t.Run(fmt.Sprint(name, lasts), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					f, limit := newFleet(t, 5*time.Millisecond), sliding(t, 100, time.Minute)
					m := f.start(0)
					defer m.Close(t.Context())
					m.ask(debit(limit, "key", 1))
					f.let(down)
					for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(time.Second / 4) {
						start := time.Now()
						m.ask(debit(limit, fmt.Sprint(start.UnixNano()), 1))
						if took := time.Since(start); took > storage.DefaultTimeout {
							t.Fatalf("a request took %v", took)
						}
					}
					f.let(f.travel)
					time.Sleep(2 * time.Second)
					if d := m.ask(debit(limit, "another key", 1)); !d.Allowed || d.Degraded {
						t.Errorf("two seconds after it is back: %+v", d)
					}
				})
			})
		}
	}
}

// The statistics ask a store on a network whether it is there, though no request needs it. An answer that is an error
// is one.
func TestStatsAskTheStore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, limit := newFleet(t, 5*time.Millisecond), sliding(t, 100, time.Minute)
		m := f.start(0)
		defer m.Close(t.Context())
		m.ask(debit(limit, "key", 1))
		for _, c := range []struct {
			fate fateFunc
			away bool
		}{
			{func(ctx context.Context, _ func() error) error { <-ctx.Done(); return ctx.Err() }, true},
			{func(context.Context, func() error) error {
				return fmt.Errorf("claims: %w", &net.OpError{Op: "dial", Err: errDisk})
			}, true},
			{func(context.Context, func() error) error { return errDisk }, false},
			{f.travel, false},
		} {
			f.let(c.fate)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if s := m.Stats(ctx); s.Degraded != c.away || (s.Cause != nil) != c.away {
				t.Errorf("degraded %v, because of %v, want %v", s.Degraded, s.Cause, c.away)
			}
			cancel()
		}
	})
}

// A store that is unreachable at the start is in use within two seconds after it is available.
func TestStoreThatIsNotThereAtFirst(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, limit := newFleet(t, 5*time.Millisecond), sliding(t, 100, time.Minute)
		f.let(func(ctx context.Context, _ func() error) error { <-ctx.Done(); return ctx.Err() })
		m := f.start(0)
		defer m.Close(t.Context())
		time.Sleep(10 * time.Minute)
		f.let(f.travel)
		time.Sleep(2 * time.Second)
		if d := m.ask(debit(limit, "key", 1)); !d.Allowed || d.Degraded {
			t.Errorf("two seconds after it is there: %+v", d)
		}
	})
}

// Lost writes are noticed without claims, and the known usage is charged again.
func TestLostWritesAreReplayed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, limit := newFleet(t, time.Millisecond), sliding(t, 100, time.Hour)
		m := f.start(0)
		defer m.Close(t.Context())
		if got := m.count(60, debit(limit, "key", 1)); got != 60 {
			t.Fatalf("%d allowed, want 60", got)
		}
		f.disk.Store(newFleetDisk())
		time.Sleep(2 * time.Second)
		if used := f.disk.Load().used(limit, "key", m.Now()); used < 60 {
			t.Errorf("after 2 seconds without traffic %d are charged again, want 60", used)
		}
		if d := m.ask(debit(limit, "other", 1)); d.Degraded {
			t.Errorf("after 2 seconds: %+v", d)
		}
		if got := m.count(100, debit(limit, "key", 1)); got != 40 {
			t.Errorf("%d allowed, want the 40 that are left", got)
		}
		if s := m.Stats(t.Context()); s.LostWrites != 1 || s.Processes != 1 || s.RoundTrip < time.Millisecond || s.RoundTrip > 2*time.Millisecond || max(s.Ahead, -s.Ahead) > time.Second {
			t.Errorf("the statistics are %+v", s)
		}
	})
}

// A machine that has a client's record in memory learns within a second that another one has banned
// the client.
func TestBansHoldOnAllMachinesSoon(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, limit := newFleet(t, 5*time.Millisecond), sliding(t, 1_000_000, time.Hour)
		one, other := f.start(0), f.start(0)
		defer one.Close(t.Context())
		defer other.Close(t.Context())
		client := func() *Client { return &Client{Key: []byte("mallory")} }
		for range 5 { // so that there is a lease
			if d := one.Decide(t.Context(), client(), []Debit{debit(limit, "key", 1)}); !d.Allowed {
				t.Fatal(d)
			}
		}
		other.Punish(client(), banningFor(time.Hour))
		time.Sleep(time.Second)
		if d := one.Decide(t.Context(), client(), []Debit{debit(limit, "key", 1)}); d.Reason != Banned || d.Waited > 0 {
			t.Errorf("a second after the ban: %+v", d)
		}
	})
}

// Leases of a sliding limit last for several slots while much of the limit is free, and a client of four
// machines that keeps to its limit is never refused, however near to it.
func TestSteadyClientOfAFleet(t *testing.T) {
	for _, tt := range []struct {
		amount, percent int64
		most            float64 // claims per request
	}{
		{1000, 50, 0.05}, {1000, 80, 0.055}, {1000, 97, 0.4}, {3000, 50, 0.025}, {3000, 80, 0.025}, {3000, 97, 0.2},
	} {
		t.Run(fmt.Sprint(tt.amount, tt.percent), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				f := newFleet(t, time.Millisecond)
				limit, machines := sliding(t, tt.amount, time.Minute), f.several(4)
				_, refusedAtFirst := f.steady(t, machines, limit, tt.percent, 15*time.Second)
				before := f.claims.Load()
				requests, refused := f.steady(t, machines, limit, tt.percent, 140*time.Second)
				if refused += refusedAtFirst; refused > 0 {
					t.Errorf("%d of %d requests were refused", refused, requests)
				}
				claims := float64(f.claims.Load()-before) / float64(requests)
				t.Logf("%.3f claims per request", claims)
				if claims > tt.most {
					t.Errorf("%.3f claims per request, want at most %v", claims, tt.most)
				}
			})
		})
	}
}

// A client of four machines that speeds up loses no more, once, than one of a single machine.
func TestClientOfAFleetThatSpeedsUp(t *testing.T) {
	for _, percent := range []int64{20, 50, 80} {
		t.Run(fmt.Sprint(percent), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				f := newFleet(t, time.Millisecond)
				limit, machines := sliding(t, 3000, time.Minute), f.several(4)
				if requests, refused := f.steady(t, machines, limit, percent, 100*time.Second); refused > 0 {
					t.Errorf("%d of %d requests were refused at %d %%", refused, requests, percent)
				}
				if requests, refused := f.steady(t, machines, limit, 97, 200*time.Second); refused > 2*limit.MaxLate() {
					t.Errorf("%d of %d requests were refused at 97 %%", refused, requests)
				}
			})
		})
	}
}

// several starts machines, which end with the test.
func (f *fleet) several(n int) (machines []*machine) {
	for range n {
		m := f.start(0)
		f.t.Cleanup(func() { m.Close(context.Background()) })
		machines = append(machines, m)
	}
	return machines
}

// steady uses a part of a limit evenly for a while, at one machine after the other.
func (f *fleet) steady(t *testing.T, machines []*machine, limit *Limit, percent int64, lasts time.Duration) (requests, refused int64) {
	pause := time.Duration(int64(limit.Window()) * 100 / (limit.Amount() * percent))
	for start := time.Now(); time.Since(start) < lasts; requests++ {
		d := machines[requests%int64(len(machines))].ask(debit(limit, "key", 1))
		if !d.Allowed {
			refused++
		}
		time.Sleep(pause - d.Waited)
	}
	return requests, refused
}
