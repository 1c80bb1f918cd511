package memory

import (
	"context"

	"github.com/caddy-tally/caddy-tally/internal/slab"
	"github.com/caddy-tally/caddy-tally/storage"
)

// enterLocked begins a call, and returns the time as of which it is decided: that
// of the database if the call is of a term, or else now, which the caller said. It
// returns an error if the term doesn't hold.
func (s *Store) enterLocked(term *storage.Term, now int64) (storage.Time, error) {
	if term == nil {
		return storage.Time{Now: now}, nil
	}
	reading := term.Clock.Read()
	told, _ := s.db.clock.Tell(reading, s.told)
	s.keepTimeLocked(told.Measured(reading))
	s.shared = reading.Shared
	term.Time = s.told.Time
	if !term.Holds(term.Time) {
		return term.Time, storage.ErrTerm
	}
	return term.Time, nil
}

// keepTimeLocked notes a time that was told, each time, as it costs nothing here:
// so no later time is earlier. In another era all counts are forgotten.
func (s *Store) keepTimeLocked(told storage.TimeRecord) {
	if told.Era != s.db.clock.Era {
		s.db.forgetCountsLocked()
	}
	s.db.clock, s.told = told, told
}

// forgetCountsLocked drops all states. What is known of clients stays.
func (db *Database) forgetCountsLocked() {
	for i := range db.shards {
		sh := &db.shards[i]
		db.addLocked(sh, -sh.bytes)
		sh.states = nil
	}
	db.counts = slab.Slab{}
}

// Time implements [storage.Store].
func (s *Store) Time(from storage.Clock, least int64) (t storage.Time, err error) {
	err = s.with(context.Background(), "time", func(db *Database) error {
		reading := from.Read()
		told, _ := db.clock.Tell(reading, s.told)
		if db.clock.Lost(reading) {
			told = told.NotBefore(least, reading)
		}
		s.keepTimeLocked(told.Measured(reading))
		s.shared = reading.Shared
		t = s.told.Time
		return nil
	})
	return t, err
}

// Within implements [storage.Store].
func (s *Store) Within(term *storage.Term) storage.Store { return s.calls.Within(s, term) }
