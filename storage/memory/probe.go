package memory

import (
	"context"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Probe implements [storage.Store]. It makes the claims on copies.
func (s *Store) Probe(ctx context.Context, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	return s.with(ctx, "probe", func(db *Database) error {
		if err := storage.CheckClaims(claims, grants); err != nil {
			return err
		}
		t, err := s.enterLocked(term)
		if err != nil {
			return err
		}
		copies := make(map[stateKey]*limiter.State)
		copyOf := func(id storage.LimitID, key storage.Key) *limiter.State {
			k := stateKey{id, key}
			if copies[k] == nil {
				st := new(state)
				db.readLocked(k, st)
				copies[k] = &st.State
			}
			return copies[k]
		}
		for i := range claims {
			c := &claims[i]
			c.Now = t.Now
			st := copyOf(c.ID, c.Key)
			if c.IsRenamed() {
				former := copyOf(c.ID, c.Former)
				st.Merge(&c.Limit, *former, c.Now)
				*former = limiter.State{}
			}
			grants[i] = c.Limit.Claim(st, c.Claim)
		}
		return nil
	})
}
