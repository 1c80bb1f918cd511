package enforce_test

import (
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// The counts in memory of a client that is alone in its network, as in docs/operations.md.
func TestCountsInMemory(t *testing.T) {
	limit := config.Limit{Amount: 10, Window: 3600e9}
	for per, want := range map[string]int64{enforce.PerIP: 1, enforce.PerClient: 4} {
		t.Run(per, func(t *testing.T) {
			h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Per: per, Limits: []config.Limit{limit}}}})
			for range 3 {
				serve(t, h, "GET", "/", "192.0.2.1", nil)
			}
			if got := h.Config.Use().Stats().Keys; got != want {
				t.Errorf("%d counts are held, want %d", got, want)
			}
		})
	}
}
