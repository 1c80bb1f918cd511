package store

import (
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// clock is what a store knows of the time of its place, between calls: two bounds of it, which a
// steady clock carries on. The zero value knows nothing. Times are nanoseconds since the Unix
// epoch.
//
// A call is sent and answered around the moment at which the place had the time that it tells. So
// the time less what the steady clock showed when the call was sent is an upper bound of the
// difference of the two, and less what it showed when the answer came a lower one.
type clock struct {
	source    storage.Source
	steady    int64 // of the reading at which the bounds are right
	low, high int64
	told      int64 // the time of the last call
	offset    int64 // of the place's time from the server's clock
}

const (
	// believed is how long bounds alone say what the time must be: after that a steady clock may
	// have stood still, so the wall clock is asked as well.
	believed = int64(10 * time.Second)
	// drift is the part of the passing time that clocks may gain or lose on one another.
	drift = 8192
	// jump is how far the time of a place must be out of its bounds to have been set.
	jump = int64(time.Second)
	// waited is how much of the time between a call and its execution makes no difference to
	// claims, as long as no slot ends in it.
	waited = int64(5 * time.Millisecond)
)

// bounds returns the bounds of the time at a reading, or false if they are unknown. fresh is whether
// a steady clock alone proves them.
func (c *clock) bounds(r storage.Reading) (low, high int64, ok, fresh bool) {
	passed := r.Steady - c.steady
	if c.told == 0 || c.source != r.Source || passed < 0 {
		return 0, 0, false, false
	}
	wide := passed / drift
	if c.offset != 0 {
		wide += passed / storage.Slew
	}
	return c.low + passed - wide, c.high + passed + wide, true, passed <= believed
}

// upper returns a time that is not before that of the place at a reading, and false if none is
// known. It is whole microseconds.
func (c *clock) upper(r storage.Reading) (int64, bool) {
	_, high, _, fresh := c.bounds(r)
	return max(high, c.told) / 1000 * 1000, fresh
}

// observe learns from an answer: a call that was made at a reading, and took so long, was executed
// at a time.
func (c *clock) observe(r storage.Reading, took, now, offset int64) {
	low, high, _, fresh := c.bounds(r)
	c.source, c.steady, c.offset = r.Source, r.Steady, offset
	c.low, c.high = now-took, now
	if fresh && now >= low-jump && now-took <= high+jump { // the time was not set
		c.low, c.high = min(max(c.low, low), now), max(min(c.high, high), now-took)
	}
	c.told = max(c.told, 1)
}

// set returns by how much the time of the place was set, if an answer shows that: what it must be
// less what it was.
func (c *clock) set(r storage.Reading, took, now int64) (by int64) {
	low, high, ok, fresh := c.bounds(r)
	switch {
	case !ok:
		return 0
	case now > high+took+jump:
		by = high - now
	case now < low-jump:
		by = low - now
	}
	if !fresh && storage.WallConfirms(r.Wall, now-c.offset, by) {
		return 0
	}
	return by
}
