package sqlite

import (
	"cmp"
	"context"
	"errors"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// errProbed makes the transaction of a probe end without a commit.
var errProbed = errors.New("nothing was to be charged")

// Probe implements [storage.Store]. It makes the claims in a transaction that it rolls back.
func (s *Store) Probe(ctx context.Context, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	if err := storage.CheckClaims(claims, grants); err != nil {
		return wrap("probe", err)
	}
	return s.tx.with(ctx, "probe", func() error {
		defer s.claims.limits.forget()
		if err := s.folds.foldAllLocked(); err != nil {
			return err
		}
		err := s.tx.inTermLocked(term, func() (int64, error) {
			_, err := s.claims.decide(term, claims, grants)
			return 0, cmp.Or(err, errProbed)
		})
		if errors.Is(err, errProbed) && !s.tx.open {
			return nil
		}
		return err
	})
}
