package storage

import (
	"errors"
	"time"
)

// Clock reads the clocks of a process.
type Clock interface {
	Read() Reading
}

// Reading has the times of a process' clocks at one moment.
type Reading struct {
	// Wall is the system's time of day, in nanoseconds since the Unix epoch. It may be wrong, and
	// people and programs set it.
	Wall int64
	// Steady is the nanoseconds that have passed since some moment. It can't be set. It advances
	// while the process is stopped and, where the system has such a clock, while the machine sleeps.
	Steady int64
	// Source names the steady clock. Only readings of one source can be compared.
	Source Source
	// Shared reports whether other processes read the same source.
	Shared bool
}

// Source names a steady clock, for example that of a machine since it was started.
type Source [16]byte

// Time is the time of a store.
type Time struct {
	// Now is in nanoseconds since the Unix epoch.
	Now int64
	// Apart is how far the wall clock is ahead of Now, negative if it is behind. Now is slewed
	// towards it, see [Slew].
	Apart int64
	// Shift is the sum of all changes by which the time was set. Now less Shift was never set.
	Shift int64
	// Era counts how many times the time was set back. Counts of earlier eras are forgotten; records
	// of clients are kept.
	Era int64
	// Resets is the number of the newest [Reset], 0 if there was none.
	Resets int64
}

// Slew (decision 36) limits how fast the time of a store approaches the wall clock: it gains or loses 1/2048 of the
// passing time, or 42 seconds a day.
const Slew = 2048

// After returns the time after a number of nanoseconds, if nobody sets a clock meanwhile.
func (t Time) After(passed int64) Time {
	t.Now, t.Apart = t.nowAfter(passed)
	return t
}

// NowAfter returns the Now of [Time.After].
func (t *Time) NowAfter(passed int64) int64 {
	now, _ := t.nowAfter(passed)
	return now
}

func (t *Time) nowAfter(passed int64) (now, apart int64) {
	passed = min(max(passed, 0), lastTime/2)
	slewed := min(max(t.Apart, -passed/Slew), passed/Slew)
	return min(t.Now+passed+slewed, lastTime), t.Apart - slewed
}

// Takes returns the longest time that may pass on a steady clock until d has passed in the time of the store. That time
// passes more slowly while it is ahead of the wall clock.
func (t Time) Takes(d time.Duration) time.Duration {
	if t.Apart >= 0 || d <= 0 {
		return d
	}
	return d + time.Duration(min(int64(d)/(Slew-1)+1, -t.Apart))
}

// Term says when a call may take effect, see [Store].
type Term struct {
	// Clock is the caller's. Required.
	Clock Clock
	// Shift, Era and Resets are those that the caller knows.
	Shift, Era, Resets int64
	// From and Until bound the time of the call: From ≤ Now < Until. An Until of 0 is no bound.
	From, Until int64

	// Time is the time as of which a call was decided. Each call that succeeds, or fails with
	// [ErrTerm], sets it.
	Time Time
}

// Holds reports whether a call of the term may take effect at a time.
func (t *Term) Holds(at Time) bool {
	return at.Shift == t.Shift && at.Era == t.Era && at.Resets == t.Resets &&
		at.Now >= t.From && (t.Until == 0 || at.Now < t.Until)
}

// ErrTerm says that the time of the store was not within the term of a call, or that there was a
// reset that the caller doesn't know. Nothing has changed.
var ErrTerm = errors.New("the time of the store is not the one that was expected")
