package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// A machine is a store that was opened. Its row in machines has how many of its batches took
// effect, and each of them writes it, in its own transaction.

// machineStays is how long the row of a machine is kept that writes nothing, in nanoseconds. A
// machine that has lost its row charges its known usage anew.
const machineStays = int64(24 * time.Hour)

// register makes a row for the store, and notes how far other machines have come. Batches of
// earlier stores of this process that may still be under way hold the locks on their rows until they
// have ended. These are waited for, so none takes effect afterwards.
func (s *Store) register(ctx context.Context, c Conn) error {
	p, suspects := s.place, s.place.suspects()
	sql := p.script().add(p.dialect.Begin(p.options.Timeout / 2)).end()
	for _, id := range suspects {
		sql.add("SELECT id, batches FROM ", table("machines"), " WHERE id = ", id, " FOR UPDATE").end()
	}
	sql.add("INSERT INTO ", table("machines"), " (id, batches, time, expires) VALUES (", s.id, ", 0, 0, ", raw(p.dialect.Clock), " + ", machineStays, ")").end()
	sql.add("SELECT id, batches FROM ", table("machines")).end()
	sql.selectMeta(false).add("COMMIT")
	results, err := p.run(ctx, c, sql)
	if err != nil {
		p.rollback(ctx, c)
		return err
	}
	if err := hasResults(results, len(suspects)+2); err != nil {
		return err
	}
	var m meta
	if err := m.read(results[len(results)-1]); err != nil {
		return err
	}
	s.epoch, s.seen = m.epoch, make(map[int64]int64)
	for _, rows := range results[:len(results)-1] {
		for _, row := range rows {
			var id, batches int64
			if err := numbers(row, &id, &batches); err != nil {
				return err
			}
			s.seen[id] = batches
		}
	}
	p.acquit(suspects)
	return nil
}

// isCurrentLocked returns an error unless the row of the machine says that all of its batches
// are there that were acknowledged. A batch that may still be under way must have ended: whoever
// reads the row has waited for the lock on it.
func (s *Store) isCurrentLocked(rows Rows) error {
	var batches int64
	if len(rows) == 0 {
		return s.hasLost()
	}
	if err := numbers(rows[0], &batches); err != nil {
		return err
	}
	if s.pending && batches == s.sent+1 {
		s.acknowledgeLocked()
	}
	if batches != s.sent {
		return s.hasLost()
	}
	s.pending = false
	return nil
}

func (s *Store) acknowledgeLocked() {
	s.sent++
	s.pending = false
	s.acknowledged.Store(s.sent)
}

func (s *Store) hasLost() error {
	s.lost.Store(true)
	return storage.ErrLostWrites
}

// resolveLocked finds out whether a batch took effect whose commit was not answered, or with an
// error. It tries until the context ends. If the batch had no effect, it returns the cause.
func (s *Store) resolveLocked(ctx context.Context, cause error) error {
	s.pending = true
	s.claims.hangUpLocked()
	results, err := s.askBatchesLocked(ctx)
	for wait := firstWait; err != nil && await(ctx, wait); wait = min(2*wait, lastWait) {
		results, err = s.askBatchesLocked(ctx)
	}
	if err != nil {
		s.place.suspect(s.id)
		return fmt.Errorf("%w: %w", storage.ErrUnknownOutcome, cause)
	}
	before := s.sent
	if err := s.isCurrentLocked(results[0]); err != nil {
		return err
	}
	if s.sent == before {
		return cause
	}
	return nil
}

// askBatchesLocked reads the machine's row. It waits for the lock on it, which a batch holds until
// it has ended, with or without effect.
func (s *Store) askBatchesLocked(ctx context.Context) (results []Rows, err error) {
	p := s.place
	sql := p.script().add(p.dialect.Begin(p.options.Timeout / 2)).end()
	sql.add("SELECT batches FROM ", table("machines"), " WHERE id = ", s.id, " FOR UPDATE").end().add("ROLLBACK")
	err = s.claims.withLocked(ctx, func(c Conn) (err error) {
		if results, err = p.run(ctx, c, sql); err != nil {
			p.rollback(ctx, c)
			return err
		}
		return hasResults(results, 1)
	})
	return results, err
}

// A server that is out of reach is asked again after so long.
const (
	firstWait = time.Millisecond
	lastWait  = 50 * time.Millisecond
)

// await waits, and reports whether the context goes on.
func await(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
