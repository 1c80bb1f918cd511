// Package fakeclock is a clock for engines in tests that don't run in a bubble.
package fakeclock

import (
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Clock stands still between changes of Now.
type Clock struct {
	Start int64 // in nanoseconds since the Unix epoch
	Now   atomic.Int64
}

// New returns a clock with the time of its start.
func New(start int64) *Clock {
	c := &Clock{Start: start}
	c.Now.Store(start)
	return c
}

// Read implements engine.Clock.
func (c *Clock) Read() (r storage.Reading, elapsed int64) {
	now := c.Now.Load()
	return storage.Reading{Wall: now, Steady: now, Source: storage.Source{1}, Shared: true}, now - c.Start
}

// Elapsed implements engine.Clock.
func (c *Clock) Elapsed() int64 { return c.Now.Load() - c.Start }
