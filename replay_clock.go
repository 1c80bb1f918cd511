package tally

import (
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// replayClock is a clock that shows the time of a log.
type replayClock struct {
	start int64
	now   atomic.Int64
}

// Read implements engine.Clock.
func (c *replayClock) Read() (r storage.Reading, elapsed int64) {
	now := c.now.Load()
	return storage.Reading{Wall: now, Steady: now, Source: storage.Source{1}, Shared: true}, now - c.start
}

// Elapsed implements engine.Clock.
func (c *replayClock) Elapsed() int64 { return c.now.Load() - c.start }

var _ engine.Clock = (*replayClock)(nil)
