package reputation

import (
	"cmp"
	"slices"
	"time"
)

// Reason is a kind of violation.
type Reason uint8

// The reasons. Their numbers are stored on disk.
const (
	// OverLimit is sending more than any client's limit.
	OverLimit Reason = 1 + iota
	// Forged is a session cookie that was tampered with, or a solved challenge
	// that was sent again.
	Forged
	// Trapped is a visit to a path that no honest client visits.
	Trapped
	// Crowded is too many clients in one network. The network is the client here.
	Crowded
	// Inherited is the violations of a client under an earlier name, or a ban by another region.
	Inherited
	// Lifted is no violation: an operator has ended the client's bans, and its record forgets the
	// rest. It is remembered for as long as the Within of its ban says.
	Lifted
	// Blocked is going over a limit that refuses its keys for longer than its window. The record is of such a
	// key, and has its last block only: from At until Counts.
	Blocked
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
	case Lifted:
		return "lifted"
	case Blocked:
		return "blocked"
	}
	return "unknown"
}

// MaxPast is the maximum number of remembered violations of one client.
const MaxPast = 32

// Violation is one violation by a client.
type Violation struct {
	At     int64  // nanoseconds since the Unix epoch
	Zone   uint32 // a hash of the zone's name; 0 if no zone was involved
	Reason Reason
}

// Offense is a violation with its consequences.
type Offense struct {
	Violation
	// Points is the number of points taken off the score, from 0 to [Best].
	Points int
	// Ban determines when the offense bans the client.
	Ban Ban
}

// Ban determines when a client is banned, and for how long. The zero value never bans.
type Ban struct {
	// After is the number of violations that lead to a ban, from 1 to [MaxPast].
	After int
	// Within is the time in which they must occur.
	Within time.Duration
	// For is the duration of the first ban. Each ban that begins within [Probation] of the last
	// one's end lasts twice as long. Blocks have the same duration each. One that lasts begins anew if its
	// beginning is at least Within ago, and Within isn't 0.
	For time.Duration
	// Most is the maximum duration of a ban, up to [MaxBan]; zero means [DefaultMost].
	Most time.Duration
	// Zone is the zone whose violations count, or 0 for all.
	Zone uint32
}

const (
	// Probation is how long after its end a ban is remembered.
	Probation = 24 * time.Hour
	// DefaultMost is the default of the maximum duration of a ban.
	DefaultMost = 24 * time.Hour
	// MaxBan is the longest possible ban.
	MaxBan = 366 * 24 * time.Hour
	// maxBans is the largest counted number of bans: further doubling changes nothing.
	maxBans = 64
)

// Commit notes an offense, and reports whether it led to a ban or a block. Offenses of a banned client change
// nothing.
func (r *Record) Commit(o Offense) (banned bool) {
	now := max(o.At, r.At) // time never runs backwards
	switch o.Reason {
	case Lifted:
		*r = Record{At: now, Counts: now + int64(o.Ban.Within), Past: []Violation{{At: now, Reason: Lifted}}}
		return false
	case Blocked:
		if !r.Begins(o) {
			return false
		}
		*r = Record{At: now, Counts: now + int64(o.Ban.For), Past: []Violation{{At: now, Reason: Blocked}}}
		return true
	}
	if r.Banned(now) {
		return false
	}
	lost := min(r.lost(now)+int64(min(max(o.Points, 0), Best))*point, Best*point)
	level := max(r.LevelAt(now), levelOf(Best-float64(lost)/point))
	r.At, r.Lost, r.Level = now, lost, level
	r.Past = append(slices.Clone(r.Past[max(len(r.Past)-MaxPast+1, 0):]),
		Violation{At: now, Zone: o.Zone, Reason: o.Reason})
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

// Begins reports whether an offense that blocks would begin a block, or begin it anew.
func (r *Record) Begins(o Offense) bool {
	now := max(o.At, r.At)
	return now >= r.Blocked() || o.Ban.Within > 0 && now-r.At >= int64(o.Ban.Within)
}

// counted returns how many violations count for a ban.
func (r *Record) counted(ban Ban, now int64) (n int) {
	for _, v := range r.Past {
		since := max(now-int64(ban.Within), r.Until-1) // violations before the last ban don't count again
		if v.At > since && v.Reason != Lifted && (ban.Zone == 0 || ban.Zone == v.Zone) {
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
	most := cmp.Or(ban.Most, DefaultMost)
	length := min(ban.For, most)
	for range min(r.Bans, maxBans) {
		length = min(2*length, most) // both are at most MaxBan, so it can't overflow
	}
	r.Until = now + int64(length)
	r.Bans = min(r.Bans+1, maxBans)
}
