package memory

import (
	"context"
	"fmt"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/cells"
)

// stateKey is what a state belongs to.
type stateKey struct {
	id  storage.LimitID
	key storage.Key
}

// state is what one key has used of one limit.
type state = cells.State

// What a state takes in bytes: its key and value, twice because a map that has
// grown is half empty, and each slot.
const (
	stateBytes = 2 * (24 + 56)
	slotBytes  = 16
)

func bytesOfState(st state) int64 { return stateBytes + slotBytes*int64(cap(st.Slots)) }

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
			if term != nil {
				c.Now = at.Now
			}
			grants[i] = db.claimLocked(c, term != nil)
		}
		return nil
	})
}

// claimLocked decides about one claim, and stores what it changes. inTerm reports
// whether it is of a term.
func (db *Database) claimLocked(c *storage.Claim, inTerm bool) limiter.Grant {
	at := stateKey{c.ID, c.Key}
	st := db.takeLocked(at)
	var former *state
	if c.Former != (storage.Key{}) && c.Former != c.Key {
		was := db.takeLocked(stateKey{c.ID, c.Former})
		former = &was
		delete(db.shardOf(c.Former).states, stateKey{c.ID, c.Former})
	}
	grant := st.Claim(c, former, inTerm)
	db.putLocked(at, st)
	return grant
}

// takeLocked returns the state of a key and takes it out of the count of bytes.
// [Database.putLocked] puts it back.
func (db *Database) takeLocked(at stateKey) state {
	sh := db.shardOf(at.key)
	st, found := sh.states[at]
	if found {
		db.addLocked(sh, -bytesOfState(st))
	}
	return st
}

// putLocked stores the state of a key, or removes it if it says nothing.
func (db *Database) putLocked(at stateKey, st state) {
	sh := db.shardOf(at.key)
	if st.IsEmpty() {
		delete(sh.states, at)
		return
	}
	if sh.states == nil {
		sh.states = make(map[stateKey]state)
	}
	sh.states[at] = st
	db.addLocked(sh, bytesOfState(st))
}
