package memory

import (
	"context"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/cells"
)

// stateKey names a state.
type stateKey struct {
	id  storage.LimitID
	key storage.Key
}

// state is the usage of a limit by a key.
type state = cells.State

// Claim implements [storage.Store].
func (s *Store) Claim(ctx context.Context, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	return s.with(ctx, "claim", func(db *Database) error {
		if err := storage.CheckClaims(claims, grants); err != nil || len(claims) == 0 {
			return err
		}
		t, err := s.enterLocked(term)
		if err != nil {
			return err
		}
		if err := s.checkRoomLocked(t); err != nil {
			return err
		}
		for i := range claims {
			claims[i].Now = t.Now
			grants[i] = db.claimLocked(&claims[i])
		}
		return nil
	})
}

// claimLocked decides about one claim, and stores its changes. The two states are buffers of the database, so that it
// allocates nothing (decision 176).
func (db *Database) claimLocked(c *storage.Claim) limiter.Grant {
	owner := stateKey{c.ID, c.Key}
	st := &db.rooms[0]
	db.readLocked(owner, st)
	var former *state
	if c.IsRenamed() {
		was := stateKey{c.ID, c.Former}
		former = &db.rooms[1]
		db.readLocked(was, former)
		db.removeLocked(was)
	}
	grant := st.Claim(c, former)
	db.putLocked(owner, st)
	return grant
}
