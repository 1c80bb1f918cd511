package storage

import "time"

const (
	// ServerTrust is how far the clock of a server and what a caller expects may differ
	// before the clock was set.
	ServerTrust = time.Second
	// witnessFor is how long a caller knows the time after an answer of a store by its steady clock
	// alone. After that the clock may have stood still, as in a paused machine, see [WallConfirms].
	witnessFor = 10 * time.Second
)

// ServerTime is how a store on a server tells the time that all machines go by: the clock of
// the server, corrected where somebody set that clock. The correction heals by as much as
// [Slew] says. The store keeps it; the zero value is of a clock that was never set. It is
// arithmetic only.
//
// The clock of the server is the one clock that all machines can read, but it may be set, and
// after a failover it is another machine's. So each caller is a [Witness]: it was told the time
// a moment ago, and its own steady clock says how long ago that was. If the server's clock says
// anything else, that was set, and time goes on as the witness says.
type ServerTime struct {
	// Ahead is how far the store's time was ahead of the server's clock when that read Since,
	// both in nanoseconds.
	Ahead, Since int64
}

// Witness is a caller's knowledge of the time of a store. The zero value knows nothing.
type Witness struct {
	told   Time
	by     ServerTime
	steady int64
	source Source
	any    bool
}

// Told is the time in an answer of a store.
type Told struct {
	Time
	// Correction is the value to store, if Correct.
	Correction ServerTime
	Correct    bool
}

// Tell returns the time when the server's clock reads server. last is a time that the store has
// told already, or 0. asked is what the caller's clocks showed before it asked, and took is how
// long the answer took. A time that is to be corrected was not told: the store keeps the
// correction and tells the time again.
func (s ServerTime) Tell(server, last int64, w Witness, asked Reading, took time.Duration) Told {
	server, last = min(max(server, firstTime), lastTime), min(max(last, 0), lastTime)
	told := Told{Time: s.at(server)}
	now := told.Now
	if earliest, ok := w.expects(s, asked); ok {
		latest := earliest + int64(max(took, 0))
		paused := asked.Steady-w.steady > int64(witnessFor) && WallConfirms(asked.Wall, server, earliest-now)
		if !paused && (now < earliest-int64(ServerTrust) || now > latest+int64(ServerTrust)) {
			now = earliest
		}
	}
	now = max(now, last)
	if by := now - told.Now; by > int64(ServerTrust) || by < -int64(ServerTrust) {
		told.Correct, told.Correction = true, ServerTime{Ahead: now - server, Since: server}
	}
	told.Now = now
	told.Apart = server - now
	return told
}

// WallConfirms reports whether a caller's wall clock is nearer to the clock of a server than to what
// that would be without being set, which is by more.
func WallConfirms(wall, server, by int64) bool {
	off, without := wall-server, wall-server-by
	return max(off, -off) <= max(without, -without)
}

// at returns the time when the server's clock reads server.
func (s ServerTime) at(server int64) Time {
	s.Ahead, s.Since = min(max(s.Ahead, -lastTime), lastTime), min(max(s.Since, 0), lastTime)
	healed := max(server-s.Since, 0) / Slew
	ahead := s.Ahead - min(max(s.Ahead, -healed), healed)
	now := min(max(server+ahead, firstTime), lastTime)
	return Time{Now: now, Apart: server - now}
}

// Witness returns what a caller knows that was told the time. It knows nothing if the answer
// took too long to say when that was.
func (s ServerTime) Witness(told Time, asked Reading, took time.Duration) Witness {
	return Witness{told: told, by: s, steady: asked.Steady, source: asked.Source, any: took <= ServerTrust/2}
}

// expects returns the earliest time that the store can tell a caller. It knows none if nobody
// told it, or somebody else has corrected the time since.
func (w Witness) expects(k ServerTime, asked Reading) (earliest int64, ok bool) {
	passed := asked.Steady - w.steady
	if !w.any || w.by != k || w.source != asked.Source || passed < 0 {
		return 0, false
	}
	return w.told.After(passed).Now, true
}
