package tally

import (
	"runtime/debug"
	runtimemetrics "runtime/metrics"
)

// A replay makes much garbage. It is collected seldom while little memory is in use, and when much
// is in use it adds little to that.
const (
	usualMemory = 96 << 20 // that is in use when garbage is collected
	leastSpare  = 16 << 20 // of it, garbage
)

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
	percent := int(max(usualMemory-min(live, usualMemory), leastSpare) * 100 / live)
	if 4*percent > 3*c.now && 4*percent < 5*c.now {
		return
	}
	c.now = percent
	debug.SetGCPercent(percent)
}

// restore sets it as it was.
func (c *collector) restore() { debug.SetGCPercent(c.before) }
