package reputation

import (
	"math"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

const (
	// Best is the score of a client without violations.
	Best = 100
	// HalfLife is the time in which half of the missing points of a score come back.
	HalfLife = 6 * time.Hour
	// Margin is how many points above the floor of a better level a score must be to reach that
	// level again.
	Margin = 3
	// Forgotten is how many points a score may lack to count as whole: a record that lacks less has
	// no effect.
	Forgotten = 0.5
)

// point is the unit of [Record.Lost].
const point = 1_000_000

// Record is the history of a client. The zero value is the record of an unknown client. A record
// from outside must go through [Record.Clamp] before use.
type Record struct {
	// At is the time of the last violation, and of Lost, in nanoseconds since the Unix epoch.
	At int64
	// Lost is the number of points missing at At, in millionths of a point.
	Lost int64
	// Level is the level of the client after At.
	Level Level
	// Until is when the client's ban ends, or ended, in nanoseconds since the Unix
	// epoch; 0 if it never was banned.
	Until int64
	// Bans is the number of successive bans.
	Bans int
	// Counts is the time until which the record is needed at least, in nanoseconds since the Unix
	// epoch: until then its violations may count for a ban, even if they cost few points.
	Counts int64
	// Past is the last violations, oldest first, at most [MaxPast].
	Past []Violation
}

// Score returns the client's score at a time, from 0 to 100.
func (r *Record) Score(now int64) float64 {
	return Best - float64(r.lost(now))/point
}

// lost returns the missing points of the score at a time, in millionths.
func (r *Record) lost(now int64) int64 {
	since := max(now-r.At, 0)
	return int64(math.Round(float64(r.Lost) * math.Exp2(-float64(since)/float64(HalfLife))))
}

// LevelAt returns the client's level at a time.
func (r *Record) LevelAt(now int64) Level {
	if r.Lost == 0 {
		return Low
	}
	score := r.Score(now)
	level := max(r.Level, levelOf(score))
	for level > Low && score >= (level-1).floor()+Margin {
		level--
	}
	return level
}

// Banned reports whether the client is banned at a time.
func (r *Record) Banned(now int64) bool { return now < r.Until }

// Blocked returns when the key's block ends, or ended, in nanoseconds since the Unix epoch; 0 if it never was
// blocked.
func (r *Record) Blocked() int64 {
	if r.Last(Blocked) == 0 {
		return 0
	}
	return r.Counts
}

// Last returns the time of the last violation for a reason, in nanoseconds since
// the Unix epoch; 0 if none is remembered.
func (r *Record) Last(reason Reason) int64 {
	for _, v := range slices.Backward(r.Past) {
		if v.Reason == reason {
			return v.At
		}
	}
	return 0
}

// Exceeds reports whether the record contains more than another one of the same client, which must
// have lost data then.
func (r *Record) Exceeds(other Record) bool {
	return r.At > other.At || r.At == other.At && r.Lost > other.Lost
}

// Merge returns the union of two records of one client, one of them under another name: the later
// one, with the later of both Until and Counts.
func (r Record) Merge(other Record) Record {
	if other.At >= r.At {
		r, other = other, r
	}
	r.Until, r.Counts = max(r.Until, other.Until), max(r.Counts, other.Counts)
	return r
}

// Expires returns the time from which on the record has no effect, in nanoseconds since the Unix
// epoch; 0 if it never had one.
func (r *Record) Expires() int64 {
	if r.Lost == 0 && r.Until == 0 {
		return r.Counts
	}
	whole := max(r.At, r.Counts)
	if ratio := float64(r.Lost) / (Forgotten * point); ratio > 1 {
		whole = max(whole, r.At+int64(math.Ceil(math.Log2(ratio)*float64(HalfLife))))
	}
	if r.Until > 0 {
		whole = max(whole, r.Until+int64(Probation))
	}
	return whole
}

// Move moves all times of the record after their clock was set.
func (r *Record) Move(by int64) {
	if by == 0 {
		return
	}
	for _, at := range []*int64{&r.At, &r.Until, &r.Counts} {
		if *at != 0 {
			*at += by
		}
	}
	r.Past = slices.Clone(r.Past)
	for i := range r.Past {
		r.Past[i].At += by
	}
}

// Clamp limits values from outside to their range: the score to its bounds, the level to existing
// ones, times to at most those that a violation at now could cause. It removes violations in the
// future.
func (r *Record) Clamp(now int64) {
	r.At = min(max(r.At, 0), now)
	r.Lost = min(max(r.Lost, 0), Best*point)
	r.Level = min(r.Level, Critical)
	r.Until = min(max(r.Until, 0), now+int64(MaxBan))
	r.Bans = min(max(r.Bans, 0), maxBans)
	r.Counts = min(max(r.Counts, 0), now+int64(MaxBan+Probation))
	r.Past = slices.DeleteFunc(r.Past, func(v Violation) bool { return v.At > now+int64(limiter.MaxSkew) })
	if len(r.Past) > MaxPast {
		r.Past = r.Past[len(r.Past)-MaxPast:]
	}
}
