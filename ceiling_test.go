package tally

import (
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

// The counts in memory of a client that is alone in its network, as in docs/operations.md.
func TestCountsInMemory(t *testing.T) {
	limit := config.Limit{Amount: 10, Window: 3600e9}
	for per, want := range map[string]int64{enforce.PerIP: 1, enforce.PerClient: 4} {
		t.Run(per, func(t *testing.T) {
			h := &Handler{Handler: config.Handler{Zones: []*config.Zone{{Name: "z", Per: per, Limits: []config.Limit{limit}}}}}
			if err := h.Provision(contextOf(t, new(config.App))); err != nil {
				t.Fatal(err)
			}
			h.run.App.Started()
			t.Cleanup(func() { h.run.App.Cleanup() })
			for range 3 {
				serve(t, h, "GET", "/", "192.0.2.1", nil)
			}
			if got := h.run.App.Use().Stats().Keys; got != want {
				t.Errorf("%d counts are held, want %d", got, want)
			}
		})
	}
}
