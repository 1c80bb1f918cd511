package memory

import (
	"context"
	"fmt"
	"math"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// stateKey is what a state belongs to.
type stateKey struct {
	id  storage.LimitID
	key storage.Key
}

// state is what one key has used of one limit.
type state struct {
	limiter.State
	expires int64 // the time from which on it says nothing
}

// What a state takes in bytes: its key and value, twice because a map that has
// grown is half empty, and each slot.
const (
	stateBytes = 2 * (24 + 56)
	slotBytes  = 16
)

func (st *state) bytes() int64 { return stateBytes + slotBytes*int64(cap(st.Slots)) }

// Claim implements [storage.Store].
func (s *Store) Claim(ctx context.Context, claims []storage.Claim, grants []limiter.Grant) error {
	return s.claim(ctx, nil, claims, grants)
}

func (s *Store) claim(ctx context.Context, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	if err := storage.CheckClaims(claims, grants); err != nil {
		return fmt.Errorf("memory: claim: %w", err)
	}
	return s.with(ctx, "claim", func(db *Database) error {
		if len(claims) == 0 {
			return nil
		}
		at, err := s.enterLocked(term, claims[0].Now)
		if err != nil {
			return err
		}
		if err := s.checkRoomLocked(at); err != nil {
			return err
		}
		for i := range claims {
			c := &claims[i]
			earliest := before(c.Now, c.Limit)
			if term != nil {
				c.Now, earliest = at.Now, at.Now
			}
			grants[i] = db.claimLocked(c, earliest)
		}
		return nil
	})
}

// claimLocked decides about one claim, and stores what it changes. No later claim
// is of a time before the earliest.
func (db *Database) claimLocked(c *storage.Claim, earliest int64) limiter.Grant {
	at := stateKey{c.ID, c.Key}
	st := db.takeLocked(at)
	if c.Former != (storage.Key{}) && c.Former != c.Key {
		former := db.takeLocked(stateKey{c.ID, c.Former})
		delete(db.shardOf(c.Former).states, stateKey{c.ID, c.Former})
		c.Limit.Merge(&st.State, former.State, c.Now)
	}
	grant := c.Limit.Claim(&st.State, c.Claim)
	st.settle(c.Limit, c.Now, earliest)
	db.putLocked(at, st)
	return grant
}

// takeLocked returns the state of a key and takes it out of the count of bytes.
// [Database.putLocked] puts it back.
func (db *Database) takeLocked(at stateKey) state {
	sh := db.shardOf(at.key)
	st, found := sh.states[at]
	if found {
		db.addLocked(sh, -st.bytes())
	}
	return st
}

// putLocked stores the state of a key, or removes it if it says nothing.
func (db *Database) putLocked(at stateKey, st state) {
	sh := db.shardOf(at.key)
	if len(st.Slots) == 0 && st.Bucket == (limiter.Bucket{}) {
		delete(sh.states, at)
		return
	}
	if sh.states == nil {
		sh.states = make(map[stateKey]state)
	}
	sh.states[at] = st
	db.addLocked(sh, st.bytes())
}

// settle drops slots that no later claim counts, and notes when the state expires: with
// slots never earlier than before, because a claim may come late.
func (st *state) settle(l limiter.Limit, now, earliest int64) {
	if len(st.Slots) > 1 && st.Slots[0].Index < l.Oldest(earliest) {
		l.Trim(&st.State, earliest)
	}
	expires := l.Expires(&st.State, now)
	if l.CountsSlots() {
		expires = max(expires, st.expires)
	}
	st.expires = expires
}

// before returns how early a later claim may be that is of no term: where clocks
// differ, it finds what it would have found.
func before(now int64, l limiter.Limit) int64 {
	behind := int64(max(l.Window(), limiter.MaxSkew))
	if now < math.MinInt64+behind {
		return math.MinInt64
	}
	return now - behind
}
