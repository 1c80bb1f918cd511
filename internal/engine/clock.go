package engine

import (
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Clock reads the clocks of the process.
type Clock interface {
	// Read returns the readings of the clocks, and the nanoseconds elapsed since some moment, which
	// never run backwards.
	Read() (r storage.Reading, elapsed int64)
	// Elapsed returns the elapsed nanoseconds alone. It is called for every decision, so it should
	// cost little. Unlike the steady clock it may stand still while the machine sleeps.
	Elapsed() int64
}

// slack is how far elapsed time may lag behind the steady clock before the engine's time follows
// that clock, and how often the steady clock is read, since reading it takes longer than reading
// the elapsed time. A machine that goes to sleep has stopped its processes for longer than slack
// before its clocks stop.
const slack = int64(1e6)

// clock estimates the time of the store between calls of it, from the store's last time and the
// time elapsed since. It runs backwards only if the store's time is set back.
type clock struct {
	source Clock
	line   atomic.Pointer[line]
	looked atomic.Int64 // the elapsed time at the last reading of the steady clock
}

// line is the course of time from a known moment on. It is immutable.
type line struct {
	storage.Time
	steady, elapsed int64 // at that moment
	fromStore       bool  // before that it is the wall clock's time
	floor           int64 // the previous line's time, below which the time must not fall
	took            int64 // how long the store took to answer: its time may be behind by as much
}

// now returns the time at an elapsed time.
func (l *line) now(elapsed int64) int64 { return max(l.NowAfter(elapsed-l.elapsed), l.floor) }

// least returns the earliest time that the store can have at an elapsed time. Its clock is read
// after the call was stamped, in a call that stalls long after.
func (l *line) least(elapsed int64) int64 { return l.NowAfter(elapsed - l.elapsed - l.took) }

func newClock(source Clock) *clock {
	c := &clock{source: source}
	r, elapsed := source.Read()
	c.line.Store(&line{Time: storage.Time{Now: r.Wall}, steady: r.Steady, elapsed: elapsed})
	c.looked.Store(elapsed)
	return c
}

// now returns nanoseconds since the Unix epoch.
func (c *clock) now() int64 {
	now, _, _ := c.moment()
	return now
}

// earliest returns the earliest time that the store can have.
func (c *clock) earliest() int64 {
	c.now() // reads the steady clock if the last reading is too old
	return c.line.Load().least(c.source.Elapsed())
}

// moment returns the time and its line. ahead reports that the time is the floor of the line: the
// store's time is not that late yet.
func (c *clock) moment() (now int64, on *line, ahead bool) {
	elapsed := c.source.Elapsed()
	if elapsed-c.looked.Load() >= slack {
		c.look()
	}
	on = c.line.Load()
	now = on.NowAfter(elapsed - on.elapsed)
	return max(now, on.floor), on, now < on.floor
}

// look compares the time with the steady clock, which is later if the machine slept.
func (c *clock) look() {
	r, elapsed := c.source.Read()
	c.looked.Store(elapsed)
	was := c.line.Load()
	if slept := was.After(r.Steady - was.steady); slept.Now > was.now(elapsed)+slack {
		c.line.CompareAndSwap(was, &line{Time: slept, steady: r.Steady, elapsed: elapsed, fromStore: was.fromStore, took: was.took})
	}
}

// backBy is how far the store's time may lie behind the engine's, apart from slewing, without
// counting as set back. The engine's time stands still for as long.
const backBy = int64(2e9)

// follow continues from the time of a store, which was read after a stamp. It returns by how much the time was
// set, and whether it was set back.
func (c *clock) follow(t storage.Time, at *stamp) (by int64, back bool) {
	for {
		was := c.line.Load()
		next := &line{Time: t, steady: at.reading.Steady, elapsed: at.elapsed, fromStore: true, took: c.source.Elapsed() - at.elapsed}
		expected := was.After(at.elapsed - was.elapsed).Now
		most := backBy + was.took + 2*max(at.elapsed-was.elapsed, 0)/storage.Slew // it may have been slewed the other way
		back = t.Era != was.Era || t.Now < expected-most || !was.fromStore && t.Now < expected
		switch by = t.Shift - was.Shift; {
		case !was.fromStore || by == 0 && back: // it is the time of another store
			by = t.Now - expected
		}
		if !back {
			next.floor = was.now(c.source.Elapsed())
		}
		if c.line.CompareAndSwap(was, next) {
			return by, back
		}
	}
}

// lasting returns the time without any corrections, and whether it is from a store yet.
func (c *clock) lasting() (now int64, fromStore bool) {
	c.now() // reads the steady clock if the last reading is too old
	l := c.line.Load()
	return l.now(c.source.Elapsed()) - l.Shift, l.fromStore
}

// stamp is a clock for a store, which remembers its last reading.
type stamp struct {
	source  Clock
	reading storage.Reading
	elapsed int64
}

// Read implements [storage.Clock].
func (s *stamp) Read() storage.Reading {
	s.reading, s.elapsed = s.source.Read()
	return s.reading
}
