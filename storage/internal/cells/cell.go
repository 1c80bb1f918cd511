package cells

import (
	"math"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// State is what one key has used of one limit.
type State struct {
	limiter.State
	Expires int64 // the time from which on it says nothing
}

// IsEmpty reports whether the state says nothing, so that nothing need be kept of it.
func (s *State) IsEmpty() bool { return len(s.Slots) == 0 && s.Bucket == (limiter.Bucket{}) }

// Settle drops slots that no later claim counts, and notes when the state expires: with slots
// never earlier than before, because a claim may come late. No later claim is of a time before
// the earliest.
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

// Claim answers a claim and settles the state. former is what is kept under a former name of
// the key, or nil. inTerm reports whether the claim is of a term: then no later one is of an
// earlier time.
func (s *State) Claim(c *storage.Claim, former *State, inTerm bool) limiter.Grant {
	if former != nil {
		s.State.Merge(&c.Limit, former.State, c.Now)
	}
	grant := c.Limit.Claim(&s.State, c.Claim)
	earliest := c.Now
	if !inTerm {
		earliest = before(c.Now, c.Limit)
	}
	s.Settle(c.Limit, c.Now, earliest)
	return grant
}

// before returns how early a later claim may be that is of no term: where clocks differ, it
// finds what it would have found.
func before(now int64, l limiter.Limit) int64 {
	behind := int64(max(l.Window(), limiter.MaxSkew))
	if now < math.MinInt64+behind {
		return math.MinInt64
	}
	return now - behind
}
