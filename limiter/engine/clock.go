package engine

import (
	"sync/atomic"
	"time"
)

// Clock tells the time.
type Clock interface {
	// Read returns the wall clock in nanoseconds since the Unix epoch, which may
	// jump, and the nanoseconds elapsed since some moment, which never run
	// backwards.
	Read() (wall, elapsed int64)
	// Elapsed returns the second of these.
	Elapsed() int64
}

type systemClock struct{ start time.Time }

func (c systemClock) Read() (wall, elapsed int64) {
	now := time.Now()
	return now.UnixNano(), int64(now.Sub(c.start))
}

func (c systemClock) Elapsed() int64 { return int64(time.Since(c.start)) }

// slack is how far the wall clock may run ahead before the engine's time
// follows it, and how often it is looked at, which takes as long as asking for
// the elapsed time does. It keeps a clock that is being adjusted from causing a
// write to shared memory with every request.
const slack = int64(time.Millisecond)

// steadyClock is the wall clock, made to never run backwards: it follows a wall
// clock that is ahead of it, and goes on at its own pace when the wall clock is
// set back.
type steadyClock struct {
	source Clock
	offset atomic.Int64 // what is added to elapsed time
	looked atomic.Int64 // the elapsed time at which the wall clock was looked at
}

func newSteadyClock(source Clock) *steadyClock {
	c := &steadyClock{source: source}
	wall, elapsed := source.Read()
	c.offset.Store(wall - elapsed)
	c.looked.Store(elapsed)
	return c
}

// now returns nanoseconds since the Unix epoch.
func (c *steadyClock) now() int64 {
	elapsed := c.source.Elapsed()
	if elapsed-c.looked.Load() >= slack {
		c.follow()
	}
	return elapsed + c.offset.Load()
}

// follow catches up with the wall clock.
func (c *steadyClock) follow() {
	wall, elapsed := c.source.Read()
	c.looked.Store(elapsed)
	for {
		offset := c.offset.Load()
		if wall <= elapsed+offset+slack || c.offset.CompareAndSwap(offset, wall-elapsed) {
			return
		}
	}
}
