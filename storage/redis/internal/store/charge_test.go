package store

import (
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/charges"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Of all charges with an id one takes effect, and no unit is given back twice, while connections of three
// machines are cut, some of them with an answer on its way.
func TestChargesTakeEffectOnce(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []limiter.Algorithm{limiter.Sliding, limiter.Fixed} {
		t.Run(algorithm.String(), func(t *testing.T) {
			server := testserver.Redis(t)
			l, err := limiter.New(limiter.Params{Algorithm: algorithm, Amount: 10_000, Window: 24 * time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			var engines []*engine.Engine
			for i := range 3 {
				m := newFleetMachine(t, server)
				cutNext(m.proxy, []testserver.Cut{testserver.Instead, testserver.Unheard}[i%2])
				engines = append(engines, m.Engine)
			}
			charges.Check(t, &engine.Limit{ID: 1, Rate: l}, engines...)
		})
	}
}

// No id takes effect twice when a server that keeps nothing on disk is killed.
func TestIDsOutliveAServer(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	charges.Outlive(t, &engine.Limit{ID: 1, Rate: yearly(t)}, newFleetMachine(t, server).Engine, func() {
		server.Kill()
		server.Run(t)
	})
}
