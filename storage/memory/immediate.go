package memory

import (
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// A period is a time in which one store is open on the database.

// addStoreLocked notes that there are so many more stores.
func (db *Database) addStoreLocked(more int) {
	db.stores += more
	db.period.Store(0)
	if db.stores == 1 {
		db.period.Store(storage.NextPeriod())
	}
}

// Period implements [storage.Immediate].
func (s *Store) Period() uint32 { return s.db.period.Load() }

// IsNew implements [storage.Immediate].
func (s *Store) IsNew(id storage.LimitID, era int64, key storage.Key) bool {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	_, found := s.db.shardOf(key).states[stateKey{id, key}]
	return !found && era == s.db.clock.Era
}

// Recall implements [storage.Recaller].
func (s *Store) Recall(id storage.LimitID, era int64, key storage.Key, l limiter.Limit, now int64) (known limiter.Lease, ok bool) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if era != s.db.clock.Era {
		return known, false
	}
	st := &s.db.rooms[0]
	if !s.db.readLocked(stateKey{id, key}, st) {
		return known, true
	}
	return st.State.Recall(&l, now)
}

// ClaimAtOnce implements [storage.Immediate].
func (s *Store) ClaimAtOnce(period uint32, era int64, c storage.Claim, known limiter.Lease) (limiter.Grant, error) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if s.closed || period == 0 || period != s.db.period.Load() || era != s.db.clock.Era || !s.shared || s.db.bytes >= s.maxSize {
		return limiter.Grant{}, storage.ErrNotAtOnce
	}
	grant, changes := c.Limit.ClaimKnown(known, c.Claim)
	if grant.Refused(c.Claim) {
		return limiter.Grant{}, storage.ErrNotAtOnce
	}
	at := stateKey{c.ID, c.Key}
	st := &s.db.rooms[0]
	s.db.readLocked(at, st)
	st.State.Apply(&c.Limit, changes)
	st.Settle(c.Limit, c.Now, c.Now)
	s.db.putLocked(at, st)
	return grant, nil
}

var _ storage.Recaller = (*Store)(nil)
