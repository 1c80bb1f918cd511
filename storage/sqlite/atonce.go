package sqlite

import (
	"fmt"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/journal"
)

// Period implements [storage.Local].
func (s *Store) Period() uint32 {
	if a := s.periods.alone.Load(); a != nil {
		return a.period
	}
	return 0
}

// IsNew implements [storage.Local].
func (s *Store) IsNew(id storage.LimitID, era int64, key storage.Key) bool {
	a := s.periods.alone.Load()
	return a != nil && a.filters.isNew(limitOf(id, era), key)
}

// OnDisk implements [storage.Local].
func (s *Store) OnDisk() bool { return true }

// ClaimAtOnce implements [storage.Local]. When it returns, its changes are in the journal, written by one
// system call; some time later they are in the database.
func (s *Store) ClaimAtOnce(period uint32, era int64, claims []storage.KnownClaim) error {
	a := s.periods.alone.Load()
	if a == nil || a.period != period || a.crowded.Load() || s.place.damaged.Load() != nil || !a.journal.Owned() {
		return storage.ErrNotAtOnce // while it is certain that nothing was written
	}
	var records []journal.Record
	for i := range claims {
		c := &claims[i]
		id := limitOf(c.ID, era)
		if !a.knowsLimit(id, c.Now) {
			continue
		}
		if changes, ok := c.Answer(); ok {
			records = noted(records, id, c.Key, c.Limit, &changes)
		}
	}
	if !s.periods.note(a, records) {
		for i := range claims {
			claims[i].Done = false
		}
		return errNotNoted
	}
	for i := range claims {
		if c := &claims[i]; c.Done {
			a.filters.add(limitOf(c.ID, era), c.Key)
		}
	}
	return nil
}

// note writes records to the journal, and reports whether they are durable and the period goes on. If not,
// it ends the period.
func (p *periods) note(a *alone, records []journal.Record) bool {
	if len(records) == 0 || a.journal.Add(records...) && p.alone.Load() == a { // see lasts
		return true
	}
	p.checkPeriod(a)
	return false
}

// errNotNoted says that a charge may not be in the journal.
var errNotNoted = fmt.Errorf("%w: the journal is full, broken, or another process uses the database",
	storage.ErrUnknownOutcome)

var _ storage.Local = (*Store)(nil)
