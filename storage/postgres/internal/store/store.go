package store

import (
	"context"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/rows"
)

// Store is a [storage.Network] on a [Place], and a [storage.Historian] by package rows. Its methods are safe for
// concurrent use.
type Store struct {
	*rows.Side
	place   *Place
	machine *machine
	batches *batches
	chores  *chores
	sweeper *sweeper
	bytes   atomic.Int64 // of the tables, at the last measurement
}

// newStore returns a store that is not open yet.
func newStore(p *Place) *Store {
	s := &Store{place: p, machine: newMachine(), chores: &chores{line{place: p}}}
	ts := &times{place: p, witness: p.lastWitness()}
	s.batches = &batches{line: line{place: p}, machine: s.machine, times: ts}
	s.sweeper = &sweeper{chores: s.chores, machine: s.machine, times: ts}
	s.Side = rows.New(side{s.chores}, side{s.chores})
	return s
}

// maxBatch is how many keys take the server about as long as a round trip.
const maxBatch = 128

// MaxBatch implements [storage.Network].
func (s *Store) MaxBatch() int { return maxBatch }

// Stats implements [storage.Store].
func (s *Store) Stats(ctx context.Context) (stats storage.Stats, err error) {
	if !s.chores.mu.TryLock() {
		return storage.Stats{Bytes: s.bytes.Load()}, s.place.wrap("stats", ctx.Err())
	}
	defer s.chores.mu.Unlock()
	err = s.chores.doLocked(ctx, "stats", func(ctx context.Context, c conn) error {
		sql := s.place.script().add("SELECT 0")
		for _, t := range tables {
			sql.add(" + COALESCE(pg_total_relation_size('", t.name, "'), 0)")
		}
		results, err := s.place.run(ctx, c, sql)
		if err != nil {
			return err
		}
		return first(results, &stats.Bytes)
	})
	s.bytes.Store(stats.Bytes)
	return stats, err
}

// Continues implements [storage.Store]. A server that has lost acknowledged batches doesn't hold the
// charges.
func (s *Store) Continues(earlier storage.Store) bool {
	e, ok := earlier.(*Store)
	return ok && s.machine.continues(e.machine)
}

// Lacks implements [storage.Network]. When the next store is opened, no outcome is unknown any more.
func (s *Store) Lacks(earlier storage.Store) bool { return !s.Continues(earlier) }

// Close implements [storage.Store]. A second call returns [storage.ErrClosed].
func (s *Store) Close() error {
	first := s.batches.close()
	s.chores.close()
	if !first {
		return s.place.wrap("close", storage.ErrClosed)
	}
	return nil
}

var _ storage.Network = (*Store)(nil)
