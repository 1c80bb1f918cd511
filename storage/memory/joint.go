package memory

import (
	"context"
	"fmt"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// ClaimFor implements [storage.Joint]. Without a term the first claim says the time.
func (s *Store) ClaimFor(ctx context.Context, term *storage.Term, clients []storage.Client, records []reputation.Record, claims []storage.Claim, grants []limiter.Grant) error {
	if err := storage.CheckClaims(claims, grants); err != nil {
		return fmt.Errorf("memory: claim: %w", err)
	}
	if len(clients) != len(records) {
		return fmt.Errorf("memory: claim: %d clients need as many records, got %d", len(clients), len(records))
	}
	return s.with(ctx, "claim", func(db *Database) error {
		now := int64(0)
		if len(claims) > 0 {
			now = claims[0].Now
		}
		at, err := s.enterLocked(term, now)
		if err != nil {
			return err
		}
		if len(claims) > 0 {
			if err := s.checkRoomLocked(at); err != nil {
				return err
			}
		}
		for i, client := range clients {
			records[i] = db.recordLocked(client, at)
		}
		for i := range claims {
			if term != nil {
				claims[i].Now = at.Now
			}
			grants[i] = db.claimLocked(&claims[i], term != nil)
		}
		return nil
	})
}

var _ storage.Joint = (*Store)(nil)
