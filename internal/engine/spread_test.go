package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// A client with even requests, which a balancer sends to machines at random, is hardly ever refused
// near its limit, and never at 94 % of it.
func TestSteadyClientOfAFleetAtRandom(t *testing.T) {
	for _, tt := range []struct {
		machines, amount, percent int64
		most                      int // refused requests of about 4 minutes
	}{
		{2, 1000, 94, 0}, {4, 300, 94, 0}, {4, 1000, 94, 0}, {20, 3000, 94, 0},
		{2, 1000, 97, 2}, {4, 300, 97, 2}, {4, 1000, 97, 2}, {20, 3000, 97, 6},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				f, limit := newFleet(t, time.Millisecond), sliding(t, tt.amount, time.Minute)
				all := f.startAll(int(tt.machines))
				rnd := rand.New(rand.NewPCG(1, 2))
				pause, refused := float64(limit.Window())*100/float64(tt.amount*tt.percent), 0
				for i, start := 0, time.Now(); time.Since(start) < 4*time.Minute; i++ {
					time.Sleep(time.Until(start.Add(time.Duration(float64(i) * pause))))
					if !all[rnd.IntN(len(all))].ask(debit(limit, "key", 1)).Allowed {
						refused++
					}
				}
				if refused > tt.most {
					t.Errorf("%d requests were refused, want at most %d", refused, tt.most)
				}
			})
		})
	}
}

// However requests come to machines whose calls take a random time, no window has more than the limit.
func TestFleetsWithSlowCallsAreExact(t *testing.T) {
	for seed := range proof.Times(5, 1500) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(uint64(seed), 7))
				f := newFleet(t, time.Millisecond)
				f.let(func(ctx context.Context, apply func() error) error {
					d := time.Duration(1+rand.IntN(20)) * time.Millisecond // on goroutines of their own
					if err := pass(ctx, d/2); err != nil {
						return err
					}
					err := apply()
					_ = pass(context.Background(), d/2)
					return err
				})
				amount := []int64{40, 100, 400}[rnd.IntN(3)]
				limit := newLimit(t, limiter.Params{Amount: amount, Window: 6 * time.Second, Slots: []int{0, 4, 7, 60, 300}[rnd.IntN(5)]})
				all := f.startAll(1 + rnd.IntN(4))
				held := rnd.IntN(3) == 0
				start := time.Now()
				var admitted []time.Duration
				for time.Since(start) < 60*time.Second {
					speed := []float64{0.3, 0.8, 0.97, 1.5, 5}[rnd.IntN(5)]
					pause := time.Duration(float64(limit.Window()) / float64(amount) / speed)
					lasts := time.Duration(rnd.IntN(5000)) * time.Millisecond
					for from := time.Now(); time.Since(from) < lasts; {
						m := all[rnd.IntN(len(all))]
						d := debit(limit, "key", 1)
						if held && rnd.IntN(8) == 0 {
							d.Counting = Held
						}
						debits := []Debit{d}
						dec := m.ask(debits...)
						if dec.Allowed && debits[0].Pending != nil && rnd.IntN(2) == 0 {
							p, after := debits[0].Pending, time.Duration(rnd.IntN(3000))*time.Millisecond
							time.AfterFunc(after, func() { p.Settle(false) })
						} else if dec.Allowed {
							admitted = append(admitted, time.Since(start))
							if p := debits[0].Pending; p != nil {
								time.AfterFunc(time.Duration(rnd.IntN(3000))*time.Millisecond, func() { p.Settle(true) })
							}
						}
						if dec.Degraded {
							t.Fatal("degraded")
						}
						time.Sleep(pause)
					}
					time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
				}
				time.Sleep(4 * time.Second)
				most := maxIn(admitted, limit.Window()-25*time.Millisecond)
				if int64(most) > amount {
					t.Errorf("%d in a window", most)
				}
			})
		})
	}
}

// maxIn returns the largest number of times within a duration.
func maxIn(times []time.Duration, w time.Duration) int {
	most, from := 0, 0
	for i := range times {
		for times[i]-times[from] >= w {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// The units of a lease whose renewal is refused are spent or given back.
func TestUnitsOfRefusedRenewals(t *testing.T) {
	for phase := range 12 {
		t.Run(fmt.Sprint(phase), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				f, limit := newFleet(t, time.Millisecond), sliding(t, 1000, time.Minute)
				all := f.startAll(2)
				a, b, d, admitted := all[0], all[1], debit(limit, "key", 1), 0
				tick := time.Duration(60+7*phase) * time.Millisecond
				start := time.Now()
				for ; time.Since(start) < 30*time.Second; time.Sleep(tick) {
					if a.ask(d).Allowed {
						admitted++
					}
					l := a.leaseOf(limit, "key")
					if time.Since(start) > 10*time.Second && l.Span > 0 && l.At-limit.Slot(a.Now()) == 1 && l.Units > 8 {
						break
					}
				}
				at := a.leaseOf(limit, "key")
				admitted += b.count(1000, d)
				b.Close(t.Context()) // it holds nothing
				var before, after = at, at
				for range 60 { // until after the end of the lease
					before = a.leaseOf(limit, "key")
					got := a.ask(d)
					if got.Allowed {
						admitted++
					}
					time.Sleep(5 * time.Millisecond)
					after = a.leaseOf(limit, "key")
					if !got.Allowed || before.Units-after.Units > 1 {
						break
					}
					time.Sleep(tick - 5*time.Millisecond)
				}
				a.Close(t.Context())
				used := f.disk.Load().used(limit, "key", time.Now().UnixNano())
				if used > int64(admitted) {
					t.Errorf("%d admitted, %d in use after all leases were given back\nthen   %+v\nbefore %+v\nafter  %+v", admitted, used, at, before, after)
				}
			})
		})
	}
}

func (m *machine) leaseOf(limit *Limit, key string) limiter.Lease {
	c := m.table.find(limit.ID, []byte(key))
	if !c.exists() {
		return limiter.Lease{}
	}
	c = c.lockPresent()
	defer c.Unlock()
	return c.leaseLocked()
}

// A refused renewal leaves the lease as it is.
func TestRefusedRenewalKeepsTheLease(t *testing.T) {
	f := newFixture(t)
	limit := sliding(t, 1000, time.Minute)
	f.ask(debit(limit, "key", 1))
	c := f.table.find(limit.ID, []byte("key"))
	c.Lock()
	defer c.Unlock()
	slot := limit.Slot(f.clock.Now())
	c.setLeaseLocked(limiter.Lease{Units: 30, Spent: 18, Used: 500, At: slot, Span: 5, Lapsed: 25})
	en := &entry{cell: c, limit: limit, renews: true, cost: 1, grant: limiter.Grant{Lease: limiter.Lease{At: slot, Used: 1000}}}
	en.notRenewedLocked()
	if got := c.leaseLocked(); got.Units != 30 {
		t.Errorf("the lease is now %+v, and 30 units are neither in it nor given back", got)
	}
}

// undo keeps both leases, or gives one back.
func TestLeasesThatWereNotGivenBack(t *testing.T) {
	for _, tt := range []struct{ has, gives limiter.Lease }{
		{limiter.Lease{Units: 40, Used: 540, Span: 3}, limiter.Lease{Units: 7, Spent: 41, Used: 500, Span: 10}},
		{limiter.Lease{Units: 40, Used: 540, Span: 3}, limiter.Lease{Units: 7, Spent: 1, Used: 500}},
		{limiter.Lease{Units: 40, Used: 540}, limiter.Lease{Units: 7, Spent: 41, Used: 500, Span: 10}},
		{limiter.Lease{Units: 40, Used: 540}, limiter.Lease{Units: 7, Spent: 41, Used: 500}},
	} {
		f := newFixture(t)
		limit := sliding(t, 1000, time.Minute)
		f.ask(debit(limit, "key", 1))
		c := f.table.find(limit.ID, []byte("key"))
		c.Lock()
		slot := limit.Slot(f.clock.Now())
		tt.has.At, tt.gives.At = slot+5, slot+5
		c.setLeaseLocked(tt.has)
		en := &entry{cell: c, limit: limit, give: tt.gives}
		c.Unlock()
		f.committer.leases.undo([]*entry{en}, errNotSent)
		c.Lock()
		kept := c.leaseLocked().Units
		f.committer.queue.mu.Lock()
		for _, p := range f.committer.queue.later {
			kept += p.lease.Units
		}
		if b := f.committer.queue.batch; b != nil {
			for _, e := range b.entries {
				kept += e.give.Units
			}
		}
		f.committer.queue.mu.Unlock()
		if kept != tt.has.Units+tt.gives.Units {
			t.Errorf("has %+v, should have given %+v: %d units are left", tt.has, tt.gives, kept)
		}
		c.Unlock()
	}
}

// A lease that wasn't given back doesn't make a key forget what it has learned since.
func TestKnownUseOutlastsALeaseThatWasNotGivenBack(t *testing.T) {
	f := newFixture(t)
	limit := sliding(t, 1000, time.Minute)
	f.ask(debit(limit, "key", 1))
	c := f.table.find(limit.ID, []byte("key"))
	c.Lock()
	slot := limit.Slot(f.clock.Now())
	c.setLeaseLocked(limiter.Lease{At: slot, Used: 1000}) // as a refusal has said
	en := &entry{cell: c, limit: limit, give: limiter.Lease{At: slot, Units: 5, Used: 500, Span: 3}}
	c.Unlock()
	f.committer.leases.undo([]*entry{en}, errNotSent)
	c.Lock()
	defer c.Unlock()
	if lease := c.leaseLocked(); lease.Used < 1000 {
		t.Errorf("1000 were known to be in use, and now %+v, remaining %+v", lease, lease.Quota(&limit.Rate, f.clock.Now()))
	}
}

// A renewed lease that ends in the same slot as the one before begins when it is granted.
func TestPaceOfALeaseThatEndsInTheSameSlot(t *testing.T) {
	f := newFixture(t)
	limit := sliding(t, 1000, time.Minute)
	f.ask(debit(limit, "key", 1))
	c := f.table.find(limit.ID, []byte("key"))
	now := f.clock.Now()
	slot := limit.Slot(now)
	c.Lock()
	c.setLeaseLocked(limiter.Lease{Units: 10, Spent: 30, Used: 500, At: slot + 3, Span: 10})
	c.slotsLocked().ahead, c.slotsLocked().phase = 10, 0
	en := &entry{cell: c, limit: limit, renews: true, cost: 1, grant: limiter.Grant{Lease: limiter.Lease{Units: 20, At: slot + 3, Used: 530, Span: 3}}}
	c.changeRareLocked(func(r *busy) { r.open = en; r.inFlight++ })
	c.Unlock()
	f.committer.leases.deliver(en, now)
	c.Lock()
	defer c.Unlock()
	if began := c.beganLocked(limit, now); now-began > int64(time.Second) {
		t.Errorf("a lease granted now began %v ago: %+v", time.Duration(now-began), c.leaseLocked())
	}
}
