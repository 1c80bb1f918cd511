package store

import (
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// clock estimates the time of a store's place between calls, as two bounds that advance with a steady
// clock. The zero value knows nothing. Times are nanoseconds since the Unix epoch.
//
// The server reads its time at some moment between the sending of a call and its answer. So the time
// in the answer, less the steady clock's at the sending, is an upper bound of their difference. Less
// the steady clock's at the answer, it is a lower bound.
type clock struct {
	source    storage.Source
	steady    int64 // the reading at which the bounds hold
	low, high int64
	last      int64 // the time of the last call
	offset    int64 // of the place's time from the server's clock
}

const (
	// believed is how long the bounds alone are trusted. After that the steady clock may have stood
	// still, so the wall clock is compared as well.
	believed = int64(10 * time.Second)
	// drift is the part of the passing time that clocks may gain or lose on one another.
	drift = 8192
	// jump is how far out of its bounds the time of a place must be to count as set.
	jump = int64(time.Second)
	// waited is the delay between the sending and the execution of a call that doesn't matter to
	// claims, unless a slot ends in it.
	waited = int64(5 * time.Millisecond)
)

// bounds returns the bounds of the time at a reading, and ok is false if they are unknown. fresh
// reports whether the steady clock alone proves them.
func (c *clock) bounds(r storage.Reading) (low, high int64, ok, fresh bool) {
	passed := r.Steady - c.steady
	if c.last == 0 || c.source != r.Source || passed < 0 {
		return 0, 0, false, false
	}
	wide := passed / drift
	if c.offset != 0 {
		wide += passed / storage.Slew
	}
	return c.low + passed - wide, c.high + passed + wide, true, passed <= believed
}

// upper returns an upper bound of the time at a reading, in whole microseconds, and false if none is
// known.
func (c *clock) upper(r storage.Reading) (int64, bool) {
	_, high, _, fresh := c.bounds(r)
	return max(high, c.last) / 1000 * 1000, fresh
}

// observe adjusts the bounds to an answer: a call that was sent at a reading, and answered after took,
// was executed at now.
func (c *clock) observe(r storage.Reading, took, now, offset int64) {
	low, high, _, fresh := c.bounds(r)
	c.source, c.steady, c.offset = r.Source, r.Steady, offset
	c.low, c.high = now-took, now
	if fresh && now >= low-jump && now-took <= high+jump { // the time was not set
		c.low, c.high = min(max(c.low, low), now), max(min(c.high, high), now-took)
	}
	c.last = max(c.last, 1)
}

// set returns by how much the time of the place must be corrected, because an answer shows that the
// server's clock was set; 0 if it was not.
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
