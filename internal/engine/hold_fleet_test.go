package engine

import (
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Held units that come back in one process are available to others within seconds, even if the
// store has refused these until later.
func TestHeldUnitsComeBackToOtherProcesses(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				fleet := newFleet(t, 5*time.Millisecond)
				limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 5, Window: 24 * time.Hour})
				a, b := &fixture{t: t, Engine: fleet.start(0).Engine}, &fixture{t: t, Engine: fleet.start(0).Engine}
				defer a.Close(t.Context())
				defer b.Close(t.Context())
				time.Sleep(time.Minute) // they know of one another
				held := a.hold(5, limit, "a")
				for i := range 3 {
					_, d := b.counting(Held, limit, "a", 1)
					if d.Allowed || d.Retry < time.Hour || d.Fresh != (i == 0) {
						t.Errorf("while all is held: %+v, want it refused for hours, and the first time news", d)
					}
					time.Sleep(2 * time.Second)
				}
				for _, p := range held {
					p.Settle(false)
				}
				time.Sleep(2 * time.Second)
				b.hold(5, limit, "a")
				if _, d := a.counting(Held, limit, "a", 1); d.Allowed {
					t.Error("a sixth passed")
				}
			})
		})
	}
}
