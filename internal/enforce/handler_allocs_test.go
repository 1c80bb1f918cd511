//go:build !race

// Under the race detector a sync.Pool drops some of its items.

package enforce_test

import (
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// A request of a key in memory takes two allocations with header fields on: its response, and the
// function for the response's placeholders. The values of its header fields share one with those of
// other requests. A refused request takes no more.
func TestAllocationsOfRequests(t *testing.T) {
	for name, amount := range map[string]int64{"allowed": 1 << 40, "refused": 1} {
		h := benchHandler(t, config.Limit{Amount: amount, Window: 366 * 24 * 3600e9})
		r, vars, w := benchRequest()
		vars[caddyhttp.ClientIPVarKey] = "192.0.2.1"
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		empty := *repl
		n := testing.AllocsPerRun(1000, func() {
			*repl = empty // like another request's
			delete(vars, handlertest.ResponseVar)
			delete(vars, "rate_limit.let_in")
			clear(w.header)
			if err := h.ServeHTTP(w, r, nothing{}); err != nil {
				t.Fatal(err)
			}
		})
		most := 2.0
		if _, ok := any(h.Events).(interface{ ShouldEmit(string) bool }); !ok {
			most = 3 // before Caddy 2.11.6, to ask for an event
		}
		if n > most {
			t.Errorf("%s: %v allocations, want %v", name, n, most)
		}
	}
}
