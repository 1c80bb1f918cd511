package storage

import "time"

const (
	// ServerTrust is the difference between a server's clock and the expected time from which on the
	// clock counts as set.
	ServerTrust = time.Second
	// witnessFor is how long after an answer a caller's steady clock alone is trusted. After that it may
	// have stood still, as in a paused machine, see [WallConfirms].
	witnessFor = 10 * time.Second
)

// ServerTime computes the time of a store on a server: the clock of the server with a correction, in case that
// clock was set. The correction shrinks as [Slew] says. The store keeps it; the zero value is that of a clock
// that was never set. ServerTime is arithmetic only.
//
// All machines can read the server's clock, but it may be set, and after a failover it is that of another
// machine. So each caller is a [Witness]: it received the time a moment ago, and its own steady clock says how
// long ago. If the server's clock differs from that, it was set, and time continues from the witness.
type ServerTime struct {
	// Ahead is how far the store's time was ahead of the server's clock when that read Since,
	// both in nanoseconds.
	Ahead, Since int64
}

// Witness is a caller's knowledge of the time of a store. The zero value knows nothing.
type Witness struct {
	last   Time // of the last answer
	by     ServerTime
	steady int64
	source Source
	any    bool
}

// Told is the result of [ServerTime.Tell].
type Told struct {
	Time
	// Correction is the value to store, if Correct is true.
	Correction ServerTime
	Correct    bool
}

// Tell returns the time when the server's clock reads server. last is the latest time that the store has
// returned before, or 0. asked is the reading of the caller's clocks before the call, and took is how long the
// answer took. If Correct is set, the store first writes the correction, and then repeats the call.
func (s ServerTime) Tell(server, last int64, w Witness, asked Reading, took time.Duration) Told {
	server, last = min(max(server, firstTime), lastTime), min(max(last, 0), lastTime)
	result := Told{Time: s.at(server)}
	now := result.Now
	if earliest, ok := w.expects(s, asked); ok {
		latest := earliest + int64(max(took, 0))
		paused := asked.Steady-w.steady > int64(witnessFor) && WallConfirms(asked.Wall, server, earliest-now)
		if !paused && (now < earliest-int64(ServerTrust) || now > latest+int64(ServerTrust)) {
			now = earliest
		}
	}
	now = max(now, last)
	if by := now - result.Now; by > int64(ServerTrust) || by < -int64(ServerTrust) {
		result.Correct, result.Correction = true, ServerTime{Ahead: now - server, Since: server}
	}
	result.Now = now
	result.Apart = server - now
	return result
}

// WallConfirms reports whether a caller's wall clock is at least as near to a server's clock as to the time
// that this would show if it had not been set, which is by more.
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

// Witness returns the knowledge of a caller that has received a time. If the answer took too long, the caller
// doesn't know when the time was right, and so knows nothing.
func (s ServerTime) Witness(now Time, asked Reading, took time.Duration) Witness {
	return Witness{last: now, by: s, steady: asked.Steady, source: asked.Source, any: took <= ServerTrust/2}
}

// expects returns the earliest time that the store can return to the caller. ok is false if the witness knows
// nothing, or if another machine has corrected the time since.
func (w Witness) expects(k ServerTime, asked Reading) (earliest int64, ok bool) {
	passed := asked.Steady - w.steady
	if !w.any || w.by != k || w.source != asked.Source || passed < 0 {
		return 0, false
	}
	return w.last.After(passed).Now, true
}
