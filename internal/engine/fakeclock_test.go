package engine

import (
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// fakeClock is a clock that tests move.
type fakeClock struct{ wall, elapsed, slept atomic.Int64 }

// newFakeClock starts somewhere in the middle of slots and windows.
func newFakeClock() *fakeClock {
	c := new(fakeClock)
	c.wall.Store(time.Date(2026, 3, 29, 0, 59, 59, 123456789, time.UTC).UnixNano())
	return c
}

func (c *fakeClock) Read() (r storage.Reading, elapsed int64) {
	elapsed = c.elapsed.Load()
	return storage.Reading{Wall: c.wall.Load(), Steady: elapsed + c.slept.Load(), Source: storage.Source{1}, Shared: true}, elapsed
}

func (c *fakeClock) Elapsed() int64 { return c.elapsed.Load() }

func (c *fakeClock) advance(d time.Duration) {
	c.wall.Add(int64(d))
	c.elapsed.Add(int64(d))
}
