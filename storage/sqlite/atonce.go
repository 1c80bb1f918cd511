package sqlite

import (
	"fmt"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Period implements [storage.Local].
func (s *Store) Period() uint32 {
	if a := s.alone.Load(); a != nil {
		return a.period
	}
	return 0
}

// IsNew implements [storage.Local].
func (s *Store) IsNew(id storage.LimitID, era int64, key storage.Key) bool {
	a := s.alone.Load()
	return a != nil && a.filters.isNew(limitOf(id, era), key)
}

// ClaimAtOnce implements [storage.Local]. When it returns, its changes are in the journal; some time
// later they are in the database.
func (s *Store) ClaimAtOnce(period uint32, era int64, c storage.Claim, known limiter.Lease) (limiter.Grant, error) {
	a, id := s.alone.Load(), limitOf(c.ID, era)
	if a == nil || a.period != period || a.crowded.Load() || !a.knowsLimit(id, c.Now) || !a.journal.Owned() {
		return limiter.Grant{}, storage.ErrNotAtOnce
	}
	grant, changes := c.Limit.ClaimKnown(known, c.Claim)
	if grant.Refused(c.Claim) {
		return limiter.Grant{}, storage.ErrNotAtOnce
	}
	if !note(a.journal, id, c.Key, c.Limit, &changes) || s.alone.Load() != a { // see lasts
		s.checkPeriod(a)
		return limiter.Grant{}, errNotNoted
	}
	a.filters.add(id, c.Key)
	return grant, nil
}

// errNotNoted says that a charge may not be in the journal.
var errNotNoted = fmt.Errorf("%w: the journal is full, broken, or another process uses the database", storage.ErrUnknownOutcome)

var _ storage.Local = (*Store)(nil)
