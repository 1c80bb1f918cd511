package tally

import (
	"testing"
)

// BenchmarkHistory measures what it costs a request to be counted for the history, one that
// memory allows and one that memory refuses.
func BenchmarkHistory(b *testing.B) {
	for what, amount := range map[string]int64{"warm": 1 << 40, "blocked": 1} {
		for name, off := range map[string]bool{"on": false, "off": true} {
			b.Run(what+"/"+name, func(b *testing.B) {
				zone := &Zone{Name: "bench", Limits: []Limit{{Amount: amount, Window: 366 * 24 * 3600e9}}}
				h := &Handler{Zones: []*Zone{zone}}
				if err := h.Provision(contextOf(b, &App{DisableHistory: off})); err != nil {
					b.Fatal(err)
				}
				h.app.run.Started()
				b.Cleanup(func() { h.app.run.Cleanup() })
				if off == (h.run.Zones[0].Past != nil) {
					b.Fatal("the history is not as it is to be")
				}
				benchHandlerServe(b, h, 1000, 2)
			})
		}
	}
}
