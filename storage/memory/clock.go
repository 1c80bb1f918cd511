package memory

import (
	"context"

	"github.com/caddy-tally/caddy-tally/internal/slab"
	"github.com/caddy-tally/caddy-tally/storage"
)

// enterLocked begins a call within a term, and returns the time as of which it is decided. It returns an error
// if the term doesn't hold.
func (s *Store) enterLocked(term *storage.Term) (storage.Time, error) {
	reading := term.Clock.Read()
	record, _ := s.db.clock.Tell(reading, s.last)
	s.keepTimeLocked(record.Measured(reading))
	s.shared = reading.Shared
	term.Time = s.last.Time
	if !term.Holds(term.Time) {
		return term.Time, storage.ErrTerm
	}
	return term.Time, nil
}

// keepTimeLocked stores the time of each call, so that time never runs backwards. When an era begins, it forgets
// all counts.
func (s *Store) keepTimeLocked(record storage.TimeRecord) {
	if record.Era != s.db.clock.Era {
		s.db.forgetCountsLocked()
	}
	s.db.clock, s.last = record, record
}

// forgetCountsLocked drops all states, and keeps the records of clients.
func (db *Database) forgetCountsLocked() {
	for i := range db.shards {
		sh := &db.shards[i]
		db.addLocked(sh, -sh.bytes)
		sh.states = nil
	}
	db.counts = slab.Slab{}
}

// Time implements [storage.Store].
func (s *Store) Time(clock storage.Clock, least int64) (t storage.Time, err error) {
	err = s.with(context.Background(), "time", func(db *Database) error {
		reading := clock.Read()
		record, _ := db.clock.Tell(reading, s.last)
		if db.clock.Lost(reading) {
			record = record.NotBefore(least, reading)
		}
		s.keepTimeLocked(record.Measured(reading))
		s.shared = reading.Shared
		t = s.last.Time
		return nil
	})
	return t, err
}
