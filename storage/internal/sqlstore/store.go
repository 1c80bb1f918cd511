package sqlstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/rows"
)

// Store is a [storage.Network] on a [Place]. Its methods are safe for concurrent use. Claims and
// clients' records have one connection, and all other calls have another one, so that no request waits
// for a sweep.
//
// 27 of its methods are that contract and [storage.Historian]. The others are the steps of a
// transaction.
type Store struct {
	*rows.Side
	place *Place
	order int64 // among the stores that this process has opened
	id    int64 // of its row in machines

	epoch int64           // of the tables, when the store was opened
	seen  map[int64]int64 // the batches of each machine, when the store was opened

	claims line
	chores line

	sent    int64 // guarded by claims.mu: the batches that were acknowledged
	pending bool  // guarded by claims.mu: whether one more may have taken effect

	acknowledged atomic.Int64 // the same as sent
	lost         atomic.Bool  // the server has lost acknowledged batches
	bytes        atomic.Int64 // of the tables, at the last measurement

	sweeping sweeper

	times   sync.Mutex
	witness storage.Witness // guarded by times: of the last time read
}

// maxBatch is how many keys take the server about as long as a round trip.
const maxBatch = 128

// MaxBatch implements [storage.Network].
func (s *Store) MaxBatch() int { return maxBatch }

// deadline returns a context that ends when a call must end.
func (s *Store) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.place.options.Timeout)
}

// chore runs f with the connection for calls that no request waits for.
func (s *Store) chore(ctx context.Context, what string, f func(ctx context.Context, c Conn) error) error {
	s.chores.mu.Lock()
	defer s.chores.mu.Unlock()
	return s.choreLocked(ctx, what, f)
}

// query runs statements as a chore, and returns their n results.
func (s *Store) query(ctx context.Context, what string, sql *script, n int) (results []Rows, err error) {
	err = s.chore(ctx, what, func(ctx context.Context, c Conn) (err error) {
		results, err = s.place.query(ctx, c, sql, n)
		return err
	})
	return results, err
}

func (s *Store) choreLocked(ctx context.Context, what string, f func(ctx context.Context, c Conn) error) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return s.place.wrap(what, again(ctx, func() error {
		return s.chores.withLocked(ctx, func(c Conn) error {
			err := f(ctx, c)
			if err != nil {
				s.place.rollback(ctx, c)
			}
			return err
		})
	}))
}

// A transaction that had no effect, because others held locks or its connection had ended, is retried
// until the context ends, but at most maxTries times. Connecting is retried less often, so that the
// caller learns of the failure soon.
const (
	maxTries    = 100
	maxConnects = 5
)

// canTryAgain reports whether a failed batch can be retried.
func canTryAgain(err error) bool {
	if errors.Is(err, storage.ErrUnknownOutcome) {
		return false
	}
	fault := faultOf(err)
	return fault == Busy || fault == Broken || errors.Is(err, errSwept) || errors.As(err, new(*correction))
}

// again calls f until it succeeds, can't be retried, or the context ends. If f fails, it must have had
// no effect, unless its error says that the outcome is unknown.
func again(ctx context.Context, f func() error) (err error) {
	connects, wait := 0, firstWait
	for range maxTries {
		if err = f(); err == nil || ctx.Err() != nil || !canTryAgain(err) {
			return err
		}
		if !errors.As(err, new(*connectError)) {
			connects, wait = 0, firstWait
			continue
		}
		if connects++; connects == maxConnects || !await(ctx, wait) {
			return err
		}
		wait = min(2*wait, lastWait)
	}
	return err
}

// Stats implements [storage.Store].
func (s *Store) Stats(ctx context.Context) (stats storage.Stats, err error) {
	if !s.chores.mu.TryLock() {
		return storage.Stats{Bytes: s.bytes.Load()}, s.place.wrap("stats", ctx.Err())
	}
	defer s.chores.mu.Unlock()
	err = s.choreLocked(ctx, "stats", func(ctx context.Context, c Conn) error {
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
	if !ok || e.epoch != s.epoch || e.lost.Load() || s.lost.Load() {
		return false
	}
	if e.order >= s.order {
		return true // it was opened later, on the same tables
	}
	batches, known := s.seen[e.id]
	return known && batches >= e.acknowledged.Load()
}

// Lacks implements [storage.Network]. When the next store is opened, no outcome is unknown any more.
func (s *Store) Lacks(earlier storage.Store) bool { return !s.Continues(earlier) }

// Close implements [storage.Store]. A second call returns [storage.ErrClosed].
func (s *Store) Close() error {
	first := s.claims.close()
	s.chores.close()
	if !first {
		return s.place.wrap("close", storage.ErrClosed)
	}
	return nil
}

var _ storage.Network = (*Store)(nil)
