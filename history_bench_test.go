package tally

import (
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/config"
)

// BenchmarkHistory measures counting a request for the history, one that memory allows and one that
// memory refuses.
func BenchmarkHistory(b *testing.B) {
	for what, amount := range map[string]int64{"warm": 1 << 40, "blocked": 1} {
		for name, off := range map[string]bool{"on": false, "off": true} {
			b.Run(what+"/"+name, func(b *testing.B) {
				zone := &config.Zone{Name: "bench", Limits: []config.Limit{{Amount: amount, Window: 366 * 24 * 3600e9}}}
				h := &Handler{Handler: config.Handler{Zones: []*config.Zone{zone}}}
				if err := h.Provision(contextOf(b, &config.App{DisableHistory: off})); err != nil {
					b.Fatal(err)
				}
				h.run.App.Started()
				b.Cleanup(func() { h.run.App.Cleanup() })
				if off == (h.run.Zones[0].Past != nil) {
					b.Fatal("the history is not as it is to be")
				}
				benchHandlerServe(b, h, 1000, 2)
			})
		}
	}
}
