package memory

import (
	"context"

	"github.com/caddy-tally/caddy-tally/storage"
)

// In a period only one store is open on the database.

// addStoreLocked adds to the number of open stores, and begins or ends periods.
func (db *Database) addStoreLocked(more int) {
	db.stores += more
	db.period.Store(0)
	if db.stores == 1 {
		db.period.Store(storage.NextPeriod())
	}
}

// Period implements [storage.Local].
func (s *Store) Period() uint32 { return s.db.period.Load() }

// IsNew implements [storage.Local].
func (s *Store) IsNew(id storage.LimitID, era int64, key storage.Key) bool {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return era == s.db.clock.Era && !s.db.readLocked(stateKey{id, key}, &s.db.rooms[0])
}

// OnDisk implements [storage.Local].
func (s *Store) OnDisk() bool { return false }

// ClaimAtOnce implements [storage.Local].
func (s *Store) ClaimAtOnce(period uint32, era int64, claims []storage.KnownClaim) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if s.closed || period == 0 || period != s.db.period.Load() || era != s.db.clock.Era || !s.shared ||
		s.db.bytes >= s.maxSize {
		return storage.ErrNotAtOnce
	}
	for i := range claims {
		c := &claims[i]
		changes, ok := c.Answer()
		if !ok {
			continue
		}
		owner := stateKey{c.ID, c.Key}
		st := &s.db.rooms[0]
		s.db.readLocked(owner, st)
		st.State.Apply(&c.Limit, changes)
		st.Settle(&c.Limit, c.Now)
		s.db.putLocked(owner, st)
	}
	return nil
}

// Mark implements [storage.Local]. Only this process uses the database, and all of its names are made
// with one key.
func (s *Store) Mark(_ context.Context, _ int64, marks ...int64) (former, kept int64, err error) {
	return 0, append(marks, 0)[0], nil
}

// Join implements [storage.Store]. No other process can use the database, so none is counted.
func (s *Store) Join(context.Context, int64, int64, int64) (storage.Presence, error) {
	return storage.Presence{}, nil
}

// Leave implements [storage.Store].
func (s *Store) Leave(context.Context, int64) error { return nil }

var _ storage.Local = (*Store)(nil)
