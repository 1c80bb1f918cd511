package replay

import (
	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Judge decides about the requests of a log, which come in the order of their times.
type Judge interface {
	// Judge decides about a request at its time, and fills in the verdict, which is empty.
	Judge(r *accesslog.Record, now int64, v *Verdict)
}

// Limit is a limit of a zone, as a report names it.
type Limit struct {
	Zone   string
	Name   string
	Text   string // such as 5 per 1m
	Per    string // what the zone counts by
	Amount int64  // the most units that can be used at once
	Source string // where the zone is in a config file, or ""
	Shadow bool   // whether it refuses nothing
	Shared bool   // whether clients of a network have it together, beside their own
	Limit  limiter.Limit
	Counts bool // whether Limit is one: a ban has none
}

// Outcome is what becomes of a request.
type Outcome int

// The outcomes. The zero value is [Unlimited].
const (
	Unlimited Outcome = iota // no limit is for it
	Passed                   // it is within its limits
	Refused                  // it is over a limit, or its client is banned
	Denied                   // its API key or tier is missing or wrong
	Skipped                  // it can't be decided about
)

// Verdict is what becomes of a request.
type Verdict struct {
	Outcome Outcome
	Counts  []Count  // the limits that it counts for
	By      *Limit   // that refuses it; nil if none does
	Key     []byte   // that By counts by, or nil
	Reason  string   // why it is refused, denied or skipped
	Shadows []Shadow // the shadow limits that would refuse it, though it passes
	Answers string   // the handler that answers it before any limit, or ""

	room []byte
}

// Shadow is a shadow limit that would refuse a request.
type Shadow struct {
	By  *Limit
	Key []byte
}

// Count is what a request takes from a limit.
type Count struct {
	Limit   *Limit
	Key     []byte
	Cost    int64
	Unknown string // what the key is made of that the log doesn't have, or ""
}

// Reset empties the verdict for reuse.
func (v *Verdict) Reset() {
	*v = Verdict{Counts: v.Counts[:0], Shadows: v.Shadows[:0], room: v.room[:0]}
}

// Copy returns a copy of a key that is there until Reset.
func (v *Verdict) Copy(key []byte) []byte {
	from := len(v.room)
	v.room = append(v.room, key...)
	return v.room[from:len(v.room):len(v.room)]
}
