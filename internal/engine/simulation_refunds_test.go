package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// ledgerOfCharges is an oracle of charges and refunds: what was taken, when, and what of it came back.
type ledgerOfCharges struct {
	limit *Limit
	taken []takenUnits // in the order of time
}

type takenUnits struct {
	at, units int64
	charge    bool // else of requests
}

// inUse returns the units that count at a time, if the window is longer by a duration.
func (l *ledgerOfCharges) inUse(now int64, longer time.Duration, charges bool) (units int64) {
	for _, taken := range l.taken {
		if taken.at > now-int64(l.limit.Rate.Window()+longer) && (taken.charge || !charges) {
			units += taken.units
		}
	}
	return units
}

// giveBack takes refunded units out of the latest charges.
func (l *ledgerOfCharges) giveBack(units int64) {
	for i := len(l.taken) - 1; i >= 0; i-- {
		if taken := &l.taken[i]; taken.charge {
			back := min(units, taken.units)
			taken.units -= back
			units -= back
		}
	}
}

// Machines charge, give back and admit requests at random, for hours. Refunds find what charges have taken in the last
// window, and nothing else. What is left is never more than the limit in any window.
//
// Allows: nothing.
func TestSimulationOfRefunds(t *testing.T) {
	for seed := range uint64(proof.Times(2, 600)) {
		bubble.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			slots := []int{10, 60, 1440, 10_000}[seed%4]
			limit := newLimit(t, limiter.Params{Amount: 300, Window: time.Hour, Slots: slots})
			f := newFleet(t, time.Millisecond)
			machines := f.startAll(1 + int(seed/4)%2)
			ledger := &ledgerOfCharges{limit: limit}
			slot := time.Hour / time.Duration(slots)
			for n := range 100 {
				m, now := machines[random.IntN(len(machines))], time.Now().UnixNano()
				switch units := 1 + random.Int64N(12); random.IntN(4) {
				case 0:
					if m.ask(debit(limit, "a", units)).Allowed {
						ledger.taken = append(ledger.taken, takenUnits{now, units, false})
					}
				case 1, 2:
					d, repeated, err := charge(t, m.Engine, limit, "a", fmt.Sprint("charge ", n), units)
					if err != nil || repeated {
						t.Fatal(err, repeated)
					}
					if d.Allowed {
						ledger.taken = append(ledger.taken, takenUnits{now, units, true})
					}
				case 3:
					units *= 1 + random.Int64N(10)
					back, _, _, err := refund(t, m.Engine, limit, "a", fmt.Sprint("refund ", n), units)
					// A lease may be charged up to three quarters of a window ahead, or have been in a slot that ends.
					least, most := ledger.inUse(now, -slot, true), ledger.inUse(now, 45*time.Minute+2*slot, true)
					if err != nil || back < min(units, least) || back > min(units, most) {
						t.Errorf("seed %d, step %d: gave back %d of %d, want %d to %d: %v", seed, n, back, units, least, most, err)
					}
					ledger.giveBack(back)
				}
				if used := ledger.inUse(now, 0, false); used > limit.Amount() {
					t.Errorf("seed %d, step %d: %d of %d units were admitted in a window", seed, n, used, limit.Amount())
				}
				time.Sleep(time.Duration(random.Int64N(int64([]time.Duration{time.Second, time.Minute, 8 * time.Minute}[random.IntN(3)]))))
			}
			if back, _, _, err := refund(t, machines[0].Engine, limit, "a", "all", 1000); err != nil || back < ledger.inUse(time.Now().UnixNano(), -slot, true) {
				t.Errorf("seed %d: gave back %d in the end, %v", seed, back, err)
			}
			if again, _, _, err := refund(t, machines[0].Engine, limit, "a", "more", 1000); err != nil || again != 0 {
				t.Errorf("seed %d: gave back %d more, %v", seed, again, err)
			}
		})
	}
}
