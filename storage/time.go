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
	// Wall is the clock on the wall, in nanoseconds since the Unix epoch. It may
	// be wrong, and people and programs set it.
	Wall int64
	// Steady is the nanoseconds that have passed since some moment. Nobody sets
	// it. It goes on while a process is stopped and, where the system has such a
	// clock, while the machine sleeps.
	Steady int64
	// Source names the steady clock: readings of one source can be compared.
	Source Source
	// Shared reports whether other processes read the same source.
	Shared bool
}

// Source names a steady clock, for example the one of a machine since it was
// started.
type Source [16]byte

// Time is the time of a store.
type Time struct {
	// Now is in nanoseconds since the Unix epoch.
	Now int64
	// Apart is how far the wall clock is ahead of Now, negative if it is behind.
	// Now is slewed towards it, see [Slew].
	Apart int64
	// Shift is by how much the time was set, in all. Now less Shift was never set.
	Shift int64
	// Era counts how many times it was set back. What was counted in an era before
	// is forgotten, but for what is known of clients.
	Era int64
	// Resets is the number of the newest reset, see [Resetter]; 0 if there was none.
	Resets int64
}

// Slew is the part of the passing time that the time of a store may gain or lose
// in order to come nearer to the wall clock: 1/2048, or 42 seconds a day.
const Slew = 2048

// After returns the time after so many nanoseconds, if nobody sets a clock
// meanwhile.
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

// Takes returns how long it takes, at most, for a duration to pass in the time of
// the store, which may be slowed down because it is ahead of the wall clock.
func (t Time) Takes(d time.Duration) time.Duration {
	if t.Apart >= 0 || d <= 0 {
		return d
	}
	return d + time.Duration(min(int64(d)/(Slew-1)+1, -t.Apart))
}

// Term says when a call may take effect. The zero Term is no term: see
// [Timekeeper].
type Term struct {
	// Clock is that of the caller. Required.
	Clock Clock
	// Shift, Era and Resets are those that the call was made for.
	Shift, Era, Resets int64
	// From and Until bound the time of the call: From ≤ Now < Until, where an Until
	// of 0 is no bound.
	From, Until int64

	// Time is set by each call that succeeds or fails with [ErrTerm]: the time as of
	// which it was decided.
	Time Time
}

// Holds reports whether a call of the term may take effect at a time.
func (t *Term) Holds(at Time) bool {
	return at.Shift == t.Shift && at.Era == t.Era && at.Resets == t.Resets &&
		at.Now >= t.From && (t.Until == 0 || at.Now < t.Until)
}

// ErrTerm says that the time of the store was not within the term of a call, or that
// there was a reset that the caller doesn't know of. Nothing has changed.
var ErrTerm = errors.New("the time of the store is not the one that was expected")

// Timekeeper is a store that holds the time of all its users, so that
// there is one time for all of them however much their clocks differ. It never
// runs backwards but where it is set, which begins an era; it goes at the pace of
// a steady clock; and it comes nearer to the wall clock by as much as [Slew] says.
// Where the two differ by more than that can heal, it is set, once for everybody.
type Timekeeper interface {
	Store

	// Within returns the store as it is for calls of a term. Each call takes the
	// time inside of its transaction, when nobody else can use the store any more,
	// and is decided as of then, whatever time its arguments say; a call of Standings
	// or Sweep as well. It sets the term's Time, and fails with [ErrTerm] if the term
	// doesn't hold. Records are moved with a time that is set: what they say lasts as
	// long as it would have.
	//
	// The term must not be used by two calls at a time. Closing what Within returns
	// closes the store. Calls outside of a term are as of the time in their
	// arguments, for tools and tests that have a store for themselves.
	Within(term *Term) Store

	// Time returns the time of the store. A store that has lost track of time takes
	// least, if that is not too far from the wall clock to be true.
	Time(clock Clock, least int64) (Time, error)
}
