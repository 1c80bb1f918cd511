package cells

import (
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

// Claim answers a claim and settles the state. former is the state under a former name of the key, or
// nil. Later claims are not earlier.
func (s *State) Claim(c *storage.Claim, former *State) limiter.Grant {
	if former != nil {
		s.State.Merge(&c.Limit, former.State, c.Now)
	}
	grant := c.Limit.Claim(&s.State, c.Claim)
	s.Settle(&c.Limit, c.Now)
	return grant
}

// Settle drops slots that no later claim counts, and sets Expires. With slots it never sets an earlier
// time than before: a slot that hasn't begun in the time zone of this claim may count in another.
func (s *State) Settle(l *limiter.Limit, now int64) {
	if len(s.Slots) > 1 && s.Slots[0].Index < l.Oldest(now) {
		s.State.Trim(l, now)
	}
	expires := s.State.Expires(l, now)
	if l.CountsSlots() {
		expires = max(expires, s.Expires)
	}
	s.Expires = expires
}
