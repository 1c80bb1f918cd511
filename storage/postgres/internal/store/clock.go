package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// meta is the one row of the table meta, and the server's clock.
type meta struct {
	oldest, epoch, resets, changes, swept int64
	clock                                 storage.ServerTime
	last                                  int64 // the latest time that any machine has read
	server                                int64 // the server's clock
}

// selectMeta reads meta, and locks it if lock is true.
func (s *script) selectMeta(lock bool) *script {
	s.add("SELECT oldest, epoch, resets, changes, swept, ahead, since, (SELECT MAX(time) FROM ",
		table("machines"), "), ",
		serverClock, " FROM ", table("meta"), " WHERE id = 1")
	if lock {
		s.add(" FOR UPDATE")
	}
	return s.end()
}

func (m *meta) read(rows result) error {
	if len(rows) != 1 {
		return fmt.Errorf("%w: meta has no row", storage.ErrLostWrites)
	}
	return numbers(rows[0], &m.oldest, &m.epoch, &m.resets, &m.changes, &m.swept, &m.clock.Ahead, &m.clock.Since,
		&m.last, &m.server)
}

// noClock is the clock of batches without a term, which need none.
type noClock struct{}

func (noClock) Read() (r storage.Reading) { return r }

// ask notes the clocks before the server is asked.
func (tx *transaction) ask() { tx.asked, tx.began = tx.clock.Read(), time.Now() }

// answered notes how long the answer took.
func (tx *transaction) answered() { tx.took = time.Since(tx.began) }

// times computes the times of a store's transactions.
type times struct {
	place *Place

	mu      sync.Mutex
	witness storage.Witness // guarded by mu: of the last time read
}

// take computes the time of a transaction from meta. It returns an error if the term doesn't hold, or if
// the time must be corrected.
func (ts *times) take(tx *transaction, term *storage.Term) error {
	m := &tx.meta
	if ts.place.options.Clock != nil {
		m.server = ts.place.options.Clock(tx.asked)
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	result := m.clock.Tell(m.server, m.last, ts.witness, tx.asked, tx.took)
	if result.Correct {
		ts.witness = storage.Witness{}
		return &correction{m.clock, result.Correction}
	}
	result.Resets = m.resets
	ts.witness = m.clock.Witness(result.Time, tx.asked, tx.took)
	ts.place.keep(ts.witness)
	tx.at, term.Time = result.Time, result.Time
	if !term.Holds(result.Time) {
		return storage.ErrTerm
	}
	return nil
}

// correction is the error that says that the time must be corrected.
type correction struct{ from, to storage.ServerTime }

func (*correction) Error() string { return "the time must be corrected" }

// correct corrects the time if err is a correction, unless another machine has corrected it. The call
// is then retried.
func (ts *times) correct(ctx context.Context, c conn, err error) error {
	change := (*correction)(nil)
	if !errors.As(err, &change) {
		return err
	}
	_, failed := ts.place.run(ctx, c,
		ts.place.script().add("UPDATE ", table("meta"), " SET ahead = ", change.to.Ahead, ", since = ", change.to.Since,
			" WHERE id = 1 AND ahead = ", change.from.Ahead, " AND since = ", change.from.Since))
	if failed != nil {
		return failed
	}
	return err
}

// Time implements [storage.Store]. The store doesn't lose track of time, because the server has a clock.
func (s *Store) Time(from storage.Clock, _ int64) (storage.Time, error) {
	term := storage.Term{Clock: from}
	err := s.batches.inTerm(context.Background(), "time", &term,
		&batch{peek: true, decide: func(*transaction) error { return nil }})
	if errors.Is(err, storage.ErrTerm) {
		err = nil // the empty term need not hold
	}
	return term.Time, err
}
