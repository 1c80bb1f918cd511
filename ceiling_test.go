package tally

import (
	"context"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// What docs/operations.md says that memory holds of a client that is alone in its
// network.
func TestCountsInMemory(t *testing.T) {
	limit := Limit{Amount: 10, Window: 3600e9}
	for per, want := range map[string]int64{perIP: 1, perClient: 4} {
		t.Run(per, func(t *testing.T) {
			h := &Handler{Zones: []*Zone{{Name: "z", Per: per, Limits: []Limit{limit}}}}
			if err := h.Provision(contextOf(t, new(App))); err != nil {
				t.Fatal(err)
			}
			startedHandler{h.app.run}.Handle(context.Background(), caddy.Event{})
			t.Cleanup(func() { h.app.run.Cleanup() })
			for range 3 {
				serve(t, h, "GET", "/", "192.0.2.1", nil)
			}
			if got := h.app.run.use().Stats().Keys; got != want {
				t.Errorf("%d counts are held, want %d", got, want)
			}
		})
	}
}
