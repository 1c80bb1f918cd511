package limiter_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// heldRequest is a request that is pending, or known to count.
type heldRequest struct {
	at, cost int64
	open     bool
}

// The units in use of a token bucket after requests that don't count were removed are never less
// than without these requests. If none counts, no unit is in use in the end.
func TestHeldRandom(t *testing.T) {
	for seed := range uint64(proof.Times(1000, 3000)) {
		rng := rand.New(rand.NewPCG(seed, 1))
		limit := mustNew(t, limiter.Params{
			Algorithm: limiter.TokenBucket, Amount: 1 + rng.Int64N(20),
			Window: time.Duration(1+rng.Int64N(10)) * time.Second, Burst: 1 + rng.Int64N(30),
		})
		var state limiter.State
		var lease limiter.Lease
		var held limiter.Held
		var requests []heldRequest
		noneCounts := seed%3 == 0
		now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC).UnixNano()
		settle := func(i int) {
			r := &requests[i]
			if noneCounts || rng.IntN(2) == 0 {
				held.Release(&limit, &lease, now, r.cost)
				requests = append(requests[:i], requests[i+1:]...)
			} else {
				held.Keep(&limit, now, r.cost)
				r.open = false
			}
		}
		check := func() {
			t.Helper()
			var without limiter.State
			for _, r := range requests {
				limit.Claim(&without, limiter.Claim{Now: r.at, Charge: limiter.Charge{Units: r.cost}})
			}
			want := limit.Claim(&without, limiter.Claim{Now: now})
			drained := lease
			drained.SpendWorth(&limit, now, 0) // drains it
			drained.Take(&limit)
			if drained.Used < want.Used || drained.Used == want.Used && drained.Part < want.Part {
				t.Fatalf("seed %d: %d and %d parts are in use, want at least %d and %d of %+v", seed, drained.Used, drained.Part, want.Used, want.Part, requests)
			}
			if noneCounts && len(requests) == 0 && (drained.Used != 0 || drained.Part != 0) {
				t.Fatalf("seed %d: %d and %d parts are in use, and no request counts", seed, drained.Used, drained.Part)
			}
		}
		for range 60 {
			now += rng.Int64N(int64(limit.Window()) / 2)
			cost := 1 + rng.Int64N(3)
			switch open := openOf(requests); {
			case rng.IntN(5) < 3 || len(open) == 0:
				if lease.Worth(&limit, now) < cost {
					back := lease.Take(&limit)
					grant := limit.Claim(&state, limiter.Claim{Now: now, Min: cost, Want: cost, Extra: rng.Int64N(3), Return: back})
					lease.Join(&limit, grant.Lease)
				}
				if lease.Spend(&limit, now, cost) {
					counts := !noneCounts && rng.IntN(4) == 0
					if !counts {
						held.Add(&limit, now, cost)
					}
					requests = append(requests, heldRequest{now, cost, !counts})
				}
			default:
				settle(open[rng.IntN(len(open))])
			}
			check()
		}
		for open := openOf(requests); len(open) > 0; open = openOf(requests) {
			settle(open[rng.IntN(len(open))])
		}
		check()
	}
}

// openOf returns the indices of the pending requests.
func openOf(requests []heldRequest) (open []int) {
	for i, r := range requests {
		if r.open {
			open = append(open, i)
		}
	}
	return open
}
