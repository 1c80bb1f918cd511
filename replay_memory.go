package tally

import (
	"runtime/debug"
	runtimemetrics "runtime/metrics"
)

// spareMemory is how much garbage a replay lets come about before it is collected: with little
// in use that is seldom, and to much it adds little.
const spareMemory = 64 << 20

// collector sets how often garbage is collected.
type collector struct {
	live        []runtimemetrics.Sample
	before, now int // percent
}

func newCollector() *collector {
	c := &collector{live: []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	c.before = debug.SetGCPercent(100)
	c.adjust()
	return c
}

// adjust sets it for the memory that is in use, which should be asked for often: it is a share of
// what is in use later.
func (c *collector) adjust() {
	runtimemetrics.Read(c.live)
	live := max(c.live[0].Value.Uint64(), 4<<20)
	percent := int(max(spareMemory*100/live, 25))
	if 4*percent > 3*c.now && 4*percent < 5*c.now {
		return
	}
	c.now = percent
	debug.SetGCPercent(percent)
}

// restore sets it as it was.
func (c *collector) restore() { debug.SetGCPercent(c.before) }
