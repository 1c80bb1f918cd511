package replay

import (
	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Judge decides about the requests of a log, which arrive in the order of their times.
type Judge interface {
	// Judge decides about a request at its time. It fills in the verdict, which must be empty.
	Judge(r *accesslog.Record, now int64, v *Verdict)
}

// Limit describes a limit of a zone for a report.
type Limit struct {
	Zone   string
	Name   string
	Text   string // such as 5 per 1m
	Per    string // the zone's key
	Amount int64  // the most units of a single burst
	Shadow bool   // whether it refuses nothing
	Shared bool   // whether it is shared by a network's clients, in addition to their own limits
	Rate   limiter.Limit
	Counts bool // whether Rate is set: a ban has none
}

// Outcome is the outcome of a request.
type Outcome int

// The outcomes. The zero value is [Unlimited].
const (
	Unlimited Outcome = iota // no limit applies
	Passed                   // it is within its limits
	Refused                  // it is over a limit, or its client is banned
	Denied                   // its API key or tier is missing or wrong
	Skipped                  // no decision was possible
)

// Verdict is the decision about a request.
type Verdict struct {
	Outcome Outcome
	Counts  []Count  // the limits that count it
	By      *Limit   // the limit that refuses it; nil if none does
	Key     []byte   // the key of By, or nil
	Reason  string   // the reason for refusing, denying or skipping it
	Shadows []Shadow // the shadow limits that would refuse it if it passes

	room []byte
}

// Shadow is a shadow limit that would refuse a request.
type Shadow struct {
	By  *Limit
	Key []byte
}

// Count is a request's debit from a limit.
type Count struct {
	Limit   *Limit
	Key     []byte
	Cost    int64
	Unknown string // the parts of the key that the log lacks, or ""
}

// reset empties the verdict for reuse.
func (v *Verdict) reset() {
	*v = Verdict{Counts: v.Counts[:0], Shadows: v.Shadows[:0], room: v.room[:0]}
}

// Copy returns a copy of a key that stays valid until Reset.
func (v *Verdict) Copy(key []byte) []byte {
	from := len(v.room)
	v.room = append(v.room, key...)
	return v.room[from:len(v.room):len(v.room)]
}
