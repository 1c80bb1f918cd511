package reputation

import (
	"slices"
	"time"
)

// Reason says what a client did.
type Reason uint8

// The reasons. Their numbers are kept on disk.
const (
	// OverLimit is sending more than a limit would let anybody send.
	OverLimit Reason = 1 + iota
	// Forged is a session cookie that was tampered with, or a solved challenge
	// that was sent again.
	Forged
	// Trapped is a visit to a path that no honest client visits.
	Trapped
	// Crowded is too many clients of one network, which is the client here.
	Crowded
	// Inherited is what a client did under another name, before it had this one.
	Inherited
)

// String returns the reason's name.
func (r Reason) String() string {
	switch r {
	case OverLimit:
		return "over_limit"
	case Forged:
		return "forged"
	case Trapped:
		return "trap"
	case Crowded:
		return "crowded"
	case Inherited:
		return "inherited"
	}
	return "unknown"
}

// MaxPast is how many violations are remembered of one client.
const MaxPast = 32

// Violation is one thing that a client did.
type Violation struct {
	At     int64  // nanoseconds since the Unix epoch
	Zone   uint32 // a hash of the zone's name; 0 if it happened in none
	Reason Reason
}

// Offense is a violation with what it leads to.
type Offense struct {
	Violation
	// Points is what it takes off the score, from 0 to [Best].
	Points int
	// Ban is when the client is banned for it.
	Ban Ban
}

// Ban says when a client is banned, and for how long. The zero value bans
// nobody.
type Ban struct {
	// After is how many violations lead to a ban, from 1 to [MaxPast].
	After int
	// Within is the time in which they must lie.
	Within time.Duration
	// For is how long the first ban lasts. Each that follows within [Probation]
	// of the last one's end takes twice as long.
	For time.Duration
	// Most is how long a ban lasts at most, up to [MaxBan]; zero means
	// [DefaultMost].
	Most time.Duration
	// Zone is the zone whose violations count, or 0 for all.
	Zone uint32
}

const (
	// Probation is how long after its end a ban is remembered.
	Probation = 24 * time.Hour
	// DefaultMost is how long a ban lasts at most unless configured otherwise.
	DefaultMost = 24 * time.Hour
	// MaxBan is how long a ban can last at most.
	MaxBan = 366 * 24 * time.Hour
	// maxBans is how far bans are counted: further doubling changes nothing.
	maxBans = 64
)

// Commit notes an offense, and tells whether it led to a ban. What a client does
// while it is banned changes nothing.
func (r *Record) Commit(o Offense) (banned bool) {
	now := max(o.At, r.At) // no time comes back
	if r.Banned(now) {
		return false
	}
	lost := min(r.lost(now)+int64(min(max(o.Points, 0), Best))*point, Best*point)
	level := max(r.LevelAt(now), levelOf(Best-float64(lost)/point))
	r.At, r.Lost, r.Level = now, lost, level
	r.Past = append(slices.Clone(r.Past[max(len(r.Past)-MaxPast+1, 0):]), Violation{At: now, Zone: o.Zone, Reason: o.Reason})
	banned = o.Ban.After > 0 && r.counted(o.Ban, now) >= o.Ban.After
	if banned {
		r.ban(o.Ban, now)
	}
	r.Counts = r.Expires()
	if o.Ban.After > 0 {
		r.Counts = max(r.Counts, now+int64(o.Ban.Within))
	}
	return banned
}

// counted returns how many violations count for a ban.
func (r *Record) counted(ban Ban, now int64) (n int) {
	for _, v := range r.Past {
		since := max(now-int64(ban.Within), r.Until-1) // those before the last ban have been paid for
		if v.At > since && (ban.Zone == 0 || ban.Zone == v.Zone) {
			n++
		}
	}
	return n
}

// ban bans the client from now on.
func (r *Record) ban(ban Ban, now int64) {
	if now-r.Until >= int64(Probation) {
		r.Bans = 0
	}
	most := ban.Most
	if most == 0 {
		most = DefaultMost
	}
	length := min(ban.For, most)
	for range min(r.Bans, maxBans) {
		length = min(2*length, most) // both are at most MaxBan, so it can't overflow
	}
	r.Until = now + int64(length)
	r.Bans = min(r.Bans+1, maxBans)
}
