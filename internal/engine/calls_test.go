package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// arrivals is the pattern of requests of one key to machines.
type arrivals struct {
	perSecond float64
	burst     int // the number of concurrent requests, from 1
	to        func(i, machines int) int
}

func evenly(perSecond float64) arrivals { return arrivals{perSecond, 1, inTurn} }

func inTurn(i, machines int) int { return i % machines }

// mostlyToOne sends 19 of 20 requests to the first machine.
func mostlyToOne(i, machines int) int {
	if i%20 != 19 {
		return 0
	}
	return i / 20 % machines
}

// fleetCosts is the cost of one key's requests for a store.
type fleetCosts struct {
	claims                    int64
	admitted, refused, waited int
}

func (c fleetCosts) perAdmitted() float64 { return float64(c.claims) / float64(max(c.admitted, 1)) }

// meet sends requests to machines for a time, one after another.
func (f *fleet) meet(all []*machine, limit *Limit, a arrivals, lasts time.Duration) (c fleetCosts) {
	start, before := time.Now(), f.claims.Load()
	for i := 0; ; i++ {
		at := time.Duration(float64(i-i%a.burst) / a.perSecond * float64(time.Second))
		if at >= lasts {
			break
		}
		time.Sleep(time.Until(start.Add(at)))
		d := all[a.to(i, len(all))].ask(debit(limit, "key", 1))
		if d.Allowed {
			c.admitted++
		} else {
			c.refused++
		}
		if d.Waited > 0 {
			c.waited++
		}
	}
	c.claims = f.claims.Load() - before
	return c
}

// startAll starts machines that know of one another.
func (f *fleet) startAll(machines int) (all []*machine) {
	for range machines {
		m := f.start(0)
		f.t.Cleanup(func() { m.Close(context.Background()) })
		all = append(all, m)
	}
	for _, m := range all {
		m.committer.conn.join()
	}
	return all
}

// Requests of a key in use on several machines need few claims, and hardly any waits for one.
func TestClaimsOfManyMachines(t *testing.T) {
	many := arrivals{133, 1, inTurn} // 80 % of 10,000 a minute
	bursts, busy := many, many
	bursts.burst, busy.to = 40, mostlyToOne
	for _, tt := range []struct {
		name     string
		machines int
		amount   int64
		arrivals
		most [3]float64 // claims per request: sliding, fixed, token bucket
	}{
		{"one", 1, 10_000, many, [3]float64{0.02, 0.02, 0.02}},
		{"two", 2, 10_000, many, [3]float64{0.03, 0.03, 0.02}},
		{"four", 4, 10_000, many, [3]float64{0.025, 0.05, 0.05}},
		{"eight", 8, 10_000, many, [3]float64{0.025, 0.07, 0.05}},
		{"bursts", 4, 10_000, bursts, [3]float64{0.05, 0.03, 0.03}},
		{"one is busy", 4, 10_000, busy, [3]float64{0.03, 0.02, 0.02}},
		{"a thousand", 4, 1000, evenly(13.3), [3]float64{0.055, 0.08, 0.2}},
	} {
		for i, algorithm := range algorithms {
			t.Run(fmt.Sprint(tt.name, " ", algorithm), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					f := newFleet(t, time.Millisecond)
					limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: tt.amount, Window: time.Minute})
					all := f.startAll(tt.machines)
					f.meet(all, limit, tt.arrivals, 10*time.Second)
					c := f.meet(all, limit, tt.arrivals, 2*time.Minute)
					t.Logf("%.3f claims per request, %d waited of %d", c.perAdmitted(), c.waited, c.admitted)
					if c.refused > 0 || c.perAdmitted() > tt.most[i] {
						t.Errorf("%.3f claims per request, want at most %.3f, and %d were refused", c.perAdmitted(), tt.most[i], c.refused)
					}
				})
			})
		}
	}
}

// Four machines with far more requests than a limit reach it, never exceed it, and claim nothing
// for the requests that they refuse.
func TestManyMachinesAreHammered(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				f := newFleet(t, time.Millisecond)
				limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 1000, Window: time.Minute})
				all := f.startAll(4)
				first := f.meet(all, limit, evenly(100), 15*time.Second)
				then := f.meet(all, limit, evenly(100), 44*time.Second)
				admitted, least, most := first.admitted+then.admitted, 990, 1000
				if algorithm == limiter.TokenBucket {
					// Units that are spent early from a lease that lasts begin to drain when that
					// ends.
					least, most = 1930, 1000+1000*59/60
				} else if then.claims > 0 {
					t.Errorf("%d claims for %d that were refused, want none", then.claims, then.refused)
				}
				if admitted < least || admitted > most {
					t.Errorf("%d were admitted, want %d to %d", admitted, least, most)
				}
			})
		})
	}
}
