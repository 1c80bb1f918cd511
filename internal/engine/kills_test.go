package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// longLimits are limits longer than an hour, for quotas.
func longLimits(t *testing.T) (all []*Limit) {
	for _, algorithm := range algorithms {
		for _, amount := range []int64{60, 400, 3000, 1_000_000} {
			for _, window := range []time.Duration{2 * time.Hour, 24 * time.Hour, 30 * 24 * time.Hour} {
				all = append(all, newLimit(t, limiter.Params{Algorithm: algorithm, Amount: amount, Window: window}))
			}
		}
	}
	return all
}

// A process that is killed while a client uses its limit, fast or slowly, takes at most a 16th of it, or 20 units: nine
// kills of a day take at most nine times as much.
func TestKillsTakeLittleOfAQuota(t *testing.T) {
	random := rand.New(rand.NewPCG(12, 12))
	for _, limit := range longLimits(t) {
		t.Run(fmt.Sprint(limit.Algorithm(), limit.Amount(), limit.Window()), func(t *testing.T) {
			d, clock, admitted, most := newDisk(), newFakeClock(), int64(0), max(limit.Amount()/16, 20)
			for kill := range int64(9) {
				f := startOn(t, d, clock)
				for range random.Int64N(2*limit.Amount()/9) % 3000 {
					if f.ask(debit(limit, "key", 1)).Allowed {
						admitted++
					}
					clock.advance(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
				} // f is killed: it gives nothing back
				if used := d.used(limit, "key", f.Now()); used-admitted > (kill+1)*most {
					t.Fatalf("%d kills have taken %d of %d, want at most %d each", kill+1, used-admitted, limit.Amount(), most)
				}
			}
		})
	}
}

// The same holds for machines that renew leases.
func TestKillsOfMachinesTakeLittleOfAQuota(t *testing.T) {
	random := rand.New(rand.NewPCG(12, 13))
	for _, limit := range longLimits(t) {
		for _, trip := range []time.Duration{time.Millisecond, 20 * time.Millisecond} {
			t.Run(fmt.Sprint(limit.Algorithm(), limit.Amount(), limit.Window(), trip), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					f, admitted, most := newFleet(t, trip), int64(0), max(limit.Amount()/16, 20)
					other := f.start(0)
					defer other.Close(t.Context())
					for kill := range int64(5) {
						m := f.start(0)
						for range random.Int64N(2*limit.Amount()/9) % 1000 {
							if m.ask(debit(limit, "key", 1)).Allowed {
								admitted++
							}
							time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
						}
						m.dead.Store(true)
						m.committer.conn.store.Load().Close()
						if used := f.disk.Load().used(limit, "key", time.Now().UnixNano()); used-admitted > (kill+1)*most {
							t.Errorf("%d kills have taken %d of %d, want at most %d each", kill+1, used-admitted, limit.Amount(), most)
						}
						m.Close(t.Context())
					}
				})
			})
		}
	}
}

// A client that uses up a long limit at once needs hardly more claims than one that uses up a short one.
func TestLongLimitsNeedFewClaims(t *testing.T) {
	for _, algorithm := range algorithms[:2] {
		for _, amount := range []int64{300, 3000, 30_000} {
			claims := func(window time.Duration) int64 {
				f, limit := newFixture(t), newLimit(t, limiter.Params{Algorithm: algorithm, Amount: amount, Window: window})
				if got := f.count(int(amount), debit(limit, "key", 1)); got != int(amount) {
					t.Fatalf("%d allowed, want %d", got, amount)
				}
				return f.store.claims.Load()
			}
			short, long := claims(time.Hour), claims(2*time.Hour)
			t.Logf("%v %d: %d claims, of a longer window %d", algorithm, amount, short, long)
			if long > short+max(short/10, 3) {
				t.Errorf("%v %d: %d claims of a short window, %d of a long one", algorithm, amount, short, long)
			}
		}
	}
}
