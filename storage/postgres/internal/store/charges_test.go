package store

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/charges"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// TestChargesTakeEffectOnce has three machines charge units and give them back, by charges with an id, while connections
// are cut, some of them with an answer on its way. Of all charges with an id one takes effect, and no unit is given
// back twice.
func TestChargesTakeEffectOnce(t *testing.T) {
	t.Parallel()
	server, o := sharedServer(t), newOptions()
	l, err := limiter.New(limiter.Params{Amount: 10_000, Window: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var engines []*engine.Engine
	for i := range 3 {
		proxy, messages := newProxy(t, server), new(atomic.Int64)
		proxy.SetCut(func() testserver.Cut { // never two in a row, so that calls are known to have taken effect or not
			if messages.Add(1)%50 != 0 {
				return testserver.Pass
			}
			return []testserver.Cut{testserver.Instead, testserver.Unheard, testserver.AtOnce}[i]
		})
		engines = append(engines, newEngine(t, opener(t, server, proxy.Port, o)))
	}
	charges.Check(t, &engine.Limit{ID: 1, Rate: l}, engines...)
}

// TestIDsOutliveAServer kills the server, which loses its last commits, while a machine charges with ids. None takes effect twice.
func TestIDsOutliveAServer(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	charges.Outlive(t, &engine.Limit{ID: 1, Rate: large(t)},
		newEngine(t, opener(t, server, server.Port, newOptions())), func() {
			server.Kill()
			if err := server.Start(); err != nil {
				t.Error(err)
			}
		})
}
