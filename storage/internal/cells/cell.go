package cells

import (
	"math"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// State is the usage of a limit by a key.
type State struct {
	limiter.State
	Expires int64 // the time from which on nothing of it counts
}

// IsEmpty reports whether the state has no units, and need not be stored.
func (s *State) IsEmpty() bool { return len(s.Slots) == 0 && s.Bucket == (limiter.Bucket{}) }

// Settle drops slots that no later claim counts, and sets Expires. With slots it never sets an earlier
// time than before, because a claim may come late. No later claim is before earliest.
func (s *State) Settle(l limiter.Limit, now, earliest int64) {
	if len(s.Slots) > 1 && s.Slots[0].Index < l.Oldest(earliest) {
		s.State.Trim(&l, earliest)
	}
	expires := s.State.Expires(&l, now)
	if l.CountsSlots() {
		expires = max(expires, s.Expires)
	}
	s.Expires = expires
}

// Claim answers a claim and settles the state. former is the state under a former name of the key, or
// nil. Claims within a term never go back in time.
func (s *State) Claim(c *storage.Claim, former *State, inTerm bool) limiter.Grant {
	if former != nil {
		s.State.Merge(&c.Limit, former.State, c.Now)
	}
	grant := c.Limit.Claim(&s.State, c.Claim)
	earliest := c.Now
	if !inTerm {
		earliest = Earliest(c.Now, c.Limit)
	}
	s.Settle(c.Limit, c.Now, earliest)
	return grant
}

// Earliest returns the earliest time of later claims outside a term, because clocks may differ. The slots
// that such claims count are kept.
func Earliest(now int64, l limiter.Limit) int64 {
	behind := int64(max(l.Window(), limiter.MaxSkew))
	return max(now, math.MinInt64+behind) - behind
}
