// Package clock is the time of an engine: an estimate of its store's time between calls, from the store's last
// time and the time elapsed since. It knows neither requests nor keys, asks no store, and waits for nothing.
package clock

import (
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Source reads the clocks of the process.
type Source interface {
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

// Clock estimates the time of the store. It runs backwards only if the store's time is set back. Its methods
// may be called by any goroutine.
type Clock struct {
	source Source
	line   atomic.Pointer[Line]
	looked atomic.Int64 // the elapsed time at the last reading of the steady clock
}

// Line is the course of time from a known moment on. It is immutable.
type Line struct {
	storage.Time
	steady, Elapsed int64 // at that moment
	fromStore       bool  // before that it is the wall clock's time
	Floor           int64 // the previous line's time, below which the time must not fall
	Took            int64 // how long the store took to answer: its time may be behind by as much
}

// now returns the time at an elapsed time.
func (l *Line) now(elapsed int64) int64 { return max(l.NowAfter(elapsed-l.Elapsed), l.Floor) }

// least returns the earliest time that the store can have at an elapsed time. Its clock is read
// after the call was stamped, in a call that stalls long after.
func (l *Line) least(elapsed int64) int64 { return l.NowAfter(elapsed - l.Elapsed - l.Took) }

// New returns the clock of a source, which shows the wall clock's time until it follows a store.
func New(source Source) *Clock {
	c := &Clock{source: source}
	r, elapsed := source.Read()
	c.line.Store(&Line{Time: storage.Time{Now: r.Wall}, steady: r.Steady, Elapsed: elapsed})
	c.looked.Store(elapsed)
	return c
}

// Copy returns a clock that shows the same time, and follows its own store from now on.
func (c *Clock) Copy() *Clock {
	copied := &Clock{source: c.source}
	copied.line.Store(c.line.Load())
	copied.looked.Store(c.looked.Load())
	return copied
}

// Now returns nanoseconds since the Unix epoch.
func (c *Clock) Now() int64 {
	now, _, _ := c.Moment()
	return now
}

// Earliest returns the earliest time that the store can have.
func (c *Clock) Earliest() int64 {
	c.Now() // reads the steady clock if the last reading is too old
	return c.Least()
}

// Least is Earliest without a look at the steady clock.
func (c *Clock) Least() int64 { return c.line.Load().least(c.source.Elapsed()) }

// Elapsed returns the elapsed time of the source.
func (c *Clock) Elapsed() int64 { return c.source.Elapsed() }

// Line returns the present line.
func (c *Clock) Line() *Line { return c.line.Load() }

// Ahead returns by how much the wall clock is ahead of the time, and by how much the clock that the store reads is.
func (c *Clock) Ahead() (wall, stores int64) {
	r, elapsed := c.source.Read()
	line := c.line.Load()
	return r.Wall - line.now(elapsed), line.After(elapsed - line.Elapsed).Apart
}

// Moment returns the time and its line. ahead reports that the time is the floor of the line: the
// store's time is not that late yet.
func (c *Clock) Moment() (now int64, on *Line, ahead bool) {
	elapsed := c.source.Elapsed()
	if elapsed-c.looked.Load() >= slack {
		c.look()
	}
	on = c.line.Load()
	now = on.NowAfter(elapsed - on.Elapsed)
	return max(now, on.Floor), on, now < on.Floor
}

// look compares the time with the steady clock, which is later if the machine slept.
func (c *Clock) look() {
	r, elapsed := c.source.Read()
	c.looked.Store(elapsed)
	was := c.line.Load()
	if slept := was.After(r.Steady - was.steady); slept.Now > was.now(elapsed)+slack {
		c.line.CompareAndSwap(was,
			&Line{Time: slept, steady: r.Steady, Elapsed: elapsed, fromStore: was.fromStore, Took: was.Took})
	}
}

// backBy is how far the store's time may lie behind the engine's, apart from slewing, without
// counting as set back. The engine's time stands still for as long.
const backBy = int64(2e9)

// Follow continues from the time of a store, which was read after a stamp. It returns by how much the time was
// set, and whether it was set back.
func (c *Clock) Follow(t storage.Time, at *Stamp) (by int64, back bool) {
	for {
		was := c.line.Load()
		next := &Line{Time: t, steady: at.reading.Steady, Elapsed: at.Elapsed, fromStore: true,
			Took: c.source.Elapsed() - at.Elapsed}
		expected := was.After(at.Elapsed - was.Elapsed).Now
		// it may have been slewed the other way
		most := backBy + was.Took + 2*max(at.Elapsed-was.Elapsed, 0)/storage.Slew
		back = t.Era != was.Era || t.Now < expected-most || !was.fromStore && t.Now < expected
		switch by = t.Shift - was.Shift; {
		case !was.fromStore || by == 0 && back: // it is the time of another store
			by = t.Now - expected
		}
		if !back {
			next.Floor = was.now(c.source.Elapsed())
		}
		if c.line.CompareAndSwap(was, next) {
			return by, back
		}
	}
}

// Lasting returns the time without any corrections, and whether it is from a store yet.
func (c *Clock) Lasting() (now int64, fromStore bool) {
	c.Now() // reads the steady clock if the last reading is too old
	l := c.line.Load()
	return l.now(c.source.Elapsed()) - l.Shift, l.fromStore
}

// Stamp is a clock for a store, which remembers its last reading.
type Stamp struct {
	source  Source
	reading storage.Reading
	Elapsed int64 // then
}

// Stamp reads the clocks into a stamp.
func (c *Clock) Stamp(at *Stamp) {
	at.source = c.source
	at.Read()
}

// Read implements [storage.Clock].
func (s *Stamp) Read() storage.Reading {
	s.reading, s.Elapsed = s.source.Read()
	return s.reading
}
