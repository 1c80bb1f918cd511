package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// A machine is an open store. Its row in machines has the number of its batches that took effect. Each
// batch writes it in its own transaction.

// machineStays is how long the row of an idle machine is kept, in nanoseconds. A machine without a row
// charges its known usage again.
const machineStays = int64(24 * time.Hour)

// register creates a row for the store, and notes the batches of other machines. Batches of earlier
// stores of this process may still be under way, and lock their rows until they end. register waits for
// these locks, so that none takes effect afterwards.
func (s *Store) register(ctx context.Context, c Conn) error {
	p, suspects := s.place, s.place.suspects()
	sql := p.begin()
	for _, id := range suspects {
		sql.add("SELECT id, batches FROM ", table("machines"), " WHERE id = ", id, " FOR UPDATE").end()
	}
	sql.add("INSERT INTO ", table("machines"), " (id, batches, time, expires) VALUES (", s.id, ", 0, 0, ", serverClock, " + ", machineStays, ")").end()
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

// isCurrentLocked returns an error unless the row of the machine counts all acknowledged batches. No batch
// may be under way: the caller has waited for the lock on the row.
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

// resolveLocked finds out whether a batch took effect, after its commit was answered with an error or
// not at all. It tries until the context ends. If the batch had no effect, it returns the cause.
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

// askBatchesLocked reads the machine's row. It waits for the row's lock, which a batch holds until its
// end.
func (s *Store) askBatchesLocked(ctx context.Context) (results []Rows, err error) {
	p := s.place
	sql := p.begin()
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

// The pauses before an unreachable server is asked again.
const (
	firstWait = time.Millisecond
	lastWait  = 50 * time.Millisecond
)

// await waits, and reports whether the context has not ended.
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
