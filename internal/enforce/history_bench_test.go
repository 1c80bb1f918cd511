package enforce_test

import (
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// BenchmarkHistory measures counting a request for the history, one that memory allows and one that
// memory refuses.
func BenchmarkHistory(b *testing.B) {
	for what, amount := range map[string]int64{"warm": 1 << 40, "blocked": 1} {
		for name, off := range map[string]bool{"on": false, "off": true} {
			b.Run(what+"/"+name, func(b *testing.B) {
				zone := &config.Zone{Name: "bench", Limits: []config.Limit{{Amount: amount, Window: 366 * 24 * 3600e9}}}
				h := handlertest.Start(b, &config.App{DisableHistory: off}, &config.Handler{Zones: []*config.Zone{zone}})
				if off == (h.Zones[0].Past != nil) {
					b.Fatal("the history is not as it is to be")
				}
				benchHandlerServe(b, h, 1000, 2)
			})
		}
	}
}
