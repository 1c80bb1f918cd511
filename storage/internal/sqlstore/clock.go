package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// meta is the one row of the table meta, and the server's clock.
type meta struct {
	oldest, epoch, resets, changes, swept int64
	clock                                 storage.ServerTime
	last                                  int64 // the latest time that a machine was told
	server                                int64 // the server's clock
}

// selectMeta reads meta, and locks it if need be.
func (s *script) selectMeta(lock bool) *script {
	s.add("SELECT oldest, epoch, resets, changes, swept, ahead, since, (SELECT MAX(time) FROM ", table("machines"), "), ",
		raw(s.place.dialect.Clock), " FROM ", table("meta"), " WHERE id = 1")
	if lock {
		s.add(" FOR UPDATE")
	}
	return s.end()
}

func (m *meta) read(rows Rows) error {
	if len(rows) != 1 {
		return fmt.Errorf("%w: meta has no row", storage.ErrLostWrites)
	}
	return numbers(rows[0], &m.oldest, &m.epoch, &m.resets, &m.changes, &m.swept, &m.clock.Ahead, &m.clock.Since, &m.last, &m.server)
}

// ask notes that the server is being asked.
func (tx *transaction) ask() {
	if tx.term != nil {
		tx.asked = tx.term.Clock.Read()
	}
	tx.began = time.Now()
}

// answered notes that the server has answered.
func (tx *transaction) answered() { tx.took = time.Since(tx.began) }

// takeTime takes the time of a transaction, once meta is read. It returns an error if the tables
// are others, if the term doesn't hold, or if the time is to be corrected.
func (s *Store) takeTime(tx *transaction) error {
	m := &tx.meta
	if m.oldest > schemaVersion || m.epoch != s.epoch { // of a later version: opening again says so
		return s.hasLost()
	}
	tx.at = storage.Time{Now: tx.now}
	if tx.term == nil {
		return nil
	}
	if s.place.options.Clock != nil {
		m.server = s.place.options.Clock(tx.asked)
	}
	s.times.Lock()
	defer s.times.Unlock()
	told := m.clock.Tell(m.server, m.last, s.witness, tx.asked, tx.took)
	if told.Correct {
		s.witness = storage.Witness{}
		return &correction{m.clock, told.Correction}
	}
	told.Resets = m.resets
	s.witness = m.clock.Witness(told.Time, tx.asked, tx.took)
	s.place.keep(s.witness)
	tx.at, tx.term.Time = told.Time, told.Time
	if !tx.term.Holds(told.Time) {
		return storage.ErrTerm
	}
	return nil
}

// correction says that the time is to be corrected.
type correction struct{ from, to storage.ServerTime }

func (*correction) Error() string { return "the time is to be corrected" }

// correct corrects the time if an error says so, unless somebody else has done that since. The
// call is tried again then.
func (s *Store) correct(ctx context.Context, c Conn, err error) error {
	by := (*correction)(nil)
	if !errors.As(err, &by) {
		return err
	}
	_, failed := s.place.run(ctx, c, s.place.script().add("UPDATE ", table("meta"), " SET ahead = ", by.to.Ahead, ", since = ", by.to.Since,
		" WHERE id = 1 AND ahead = ", by.from.Ahead, " AND since = ", by.from.Since))
	if failed != nil {
		return failed
	}
	return err
}

// Time implements [storage.Store]. The time isn't lost as long as there is the server's
// clock.
func (s *Store) Time(from storage.Clock, _ int64) (storage.Time, error) {
	term := storage.Term{Clock: from}
	err := s.transact(context.Background(), "time", &batch{term: &term, peek: true, decide: func(*transaction) error { return nil }})
	if errors.Is(err, storage.ErrTerm) {
		err = nil // of none that the caller knows
	}
	return term.Time, err
}

// Within implements [storage.Store].
func (s *Store) Within(term *storage.Term) storage.Store { return s.calls.Within(s, term) }
