package bboltstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Store is a [storage.Local] on a bbolt database.
type Store struct {
	db      *database
	maxSize int64

	calls  sync.RWMutex // held by each call, and by Close
	closed bool         // guarded by calls

	last storage.TimeRecord // of the last call with a time; guarded by bbolt's lock on writing
}

// Open opens a store.
func Open(ctx context.Context, o Options) (*Store, error) {
	err := ctx.Err()
	if err == nil {
		var db *database
		if db, err = acquire(o); err == nil {
			return &Store{db: db, maxSize: o.maxSize()}, nil
		}
	}
	return nil, fmt.Errorf("bbolt: open: %w", err)
}

// Close implements [storage.Store].
func (s *Store) Close() error {
	s.calls.Lock()
	defer s.calls.Unlock()
	if s.closed {
		return storage.ErrClosed
	}
	s.closed = true
	return s.db.release()
}

// Continues implements [storage.Store]. An older copy of the file has the same ID, but was opened less often.
func (s *Store) Continues(earlier storage.Store) bool {
	e, ok := earlier.(*Store)
	return ok && (e.db == s.db || e.db.id == s.db.id && e.db.openings < s.db.openings)
}

// using runs f unless the store is closed or the context has ended.
func (s *Store) using(ctx context.Context, doing string, f func() error) error {
	s.calls.RLock()
	defer s.calls.RUnlock()
	err := ctx.Err()
	if s.closed {
		err = storage.ErrClosed
	}
	if err == nil {
		err = f()
	}
	if err != nil {
		return fmt.Errorf("bbolt: %s: %w", doing, err)
	}
	return nil
}

// look runs f in a reading transaction, which waits for nobody. f must be quick: the file can't grow meanwhile.
func (s *Store) look(ctx context.Context, doing string, f func(tx *bolt.Tx) error) error {
	return s.using(ctx, doing, func() error { return s.db.View(f) })
}

// call is a call in a writing transaction.
type call struct {
	*bolt.Tx
	time    storage.TimeRecord // of a call with a time
	changed bool
	err     error // the first one of a change
}

// change runs f in a writing transaction, and commits what it has changed.
func (s *Store) change(ctx context.Context, doing string, f func(c *call) error) error {
	return s.using(ctx, doing, func() error {
		tx, err := s.db.Begin(true)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // no effect after a commit
		if err := ctx.Err(); err != nil {
			return err // it has ended while the call waited for others
		}
		c := &call{Tx: tx}
		if err := f(c); err != nil {
			return err
		}
		return c.commit()
	})
}

// commit commits the changes, if there are any. After a failed commit, the next transaction may see it or not:
// that depends on whether bbolt has written its first page.
func (c *call) commit() error {
	if c.err != nil || !c.changed {
		return c.err
	}
	if err := c.Commit(); err != nil {
		return fmt.Errorf("%w: %w", storage.ErrUnknownOutcome, err)
	}
	return nil
}

// within runs f as of the time of the store, if the term holds.
func (s *Store) within(ctx context.Context, doing string, term *storage.Term, f func(c *call) error) error {
	return s.change(ctx, doing, func(c *call) error {
		if err := s.tell(c, term.Clock.Read(), 0); err != nil {
			return err
		}
		term.Time = c.time.Time
		if !term.Holds(term.Time) {
			return errors.Join(storage.ErrTerm, c.commit())
		}
		if err := f(c); err != nil {
			return err
		}
		if c.changed {
			c.keepTime()
		}
		return nil
	})
}

// tell sets the time of a call. When an era begins, it forgets all counts.
func (s *Store) tell(c *call, reading storage.Reading, least int64) error {
	var kept storage.TimeRecord
	read(c.Bucket(about).Get([]byte("time")), &kept)
	next, must := kept.Tell(reading, s.last)
	if kept.Lost(reading) {
		next = next.NotBefore(least, reading)
	}
	if next.Era != kept.Era {
		if err := c.DeleteBucket(counts); err != nil {
			return err
		}
		if _, err := c.CreateBucket(counts); err != nil {
			return err
		}
	}
	c.time = next.Measured(reading)
	s.last = c.time
	if must {
		c.keepTime()
	}
	return nil
}

func (c *call) keepTime() { c.put(about, []byte("time"), c.time, never) }

// Time implements [storage.Store].
func (s *Store) Time(clock storage.Clock, least int64) (t storage.Time, err error) {
	err = s.change(context.Background(), "time", func(c *call) error {
		err := s.tell(c, clock.Read(), least)
		t = c.time.Time
		return err
	})
	return t, err
}
