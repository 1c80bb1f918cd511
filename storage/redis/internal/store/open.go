package store

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Store is a [storage.Network] on a server. Its methods are safe for concurrent use. Calls that change
// something run one after the other.
//
// 24 of its methods are that contract. The others encode a call, send it and read the answer.
type Store struct {
	options Options
	names   names
	client  rueidis.Client
	conns   *conns
	closed  atomic.Bool
	former  *former
	losses  int64  // of former, when the store was opened
	leaves  int64  // likewise
	place   string // the id of the place
	machine string // the key of this store's record

	turn    chan struct{} // holds a token while a call is under way
	seq     int64         // guarded by turn, like all below: the number of the last call that wrote
	broken  error         // why the store can't be used any more
	clock   clock
	evicted int64 // keys that the server had evicted when it was opened
}

const (
	// format is the version of the data that this program makes and upgrades to, and oldestReader the
	// oldest version whose programs can use it: see [storage.Readable]. In Lua, format is FORMAT.
	format, oldestReader = "1", "1"
	// stays is how long the record of a machine without calls is kept.
	stays = 2 * time.Hour
	// openTimeout is how long opening may take.
	openTimeout = time.Second
)

// Opener returns an opener of stores on a server. It doesn't connect to it.
func Opener(o Options) storage.Opener {
	o.Prefix, o.Timeout = cmp.Or(o.Prefix, defaultPrefix), cmp.Or(o.Timeout, defaultTimeout)
	before := new(former)
	return func(ctx context.Context) (storage.Store, error) {
		s, err := open(ctx, o, before)
		if err != nil {
			return nil, fmt.Errorf("redis: open: %w", err)
		}
		return s, nil
	}
}

func open(ctx context.Context, o Options, before *former) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	s := &Store{options: o, names: names(o.Prefix), conns: newConns(o.dial), former: before, clock: before.witness(), turn: make(chan struct{}, 1)}
	s.machine = s.names.machine(randomID())
	client, err := connect(ctx, o, s.conns)
	if err != nil {
		return nil, err
	}
	s.client = client
	if err := s.enter(ctx); err != nil {
		s.hangUp()
		return nil, err
	}
	return s, nil
}

// Continues implements [storage.Store].
func (s *Store) Continues(earlier storage.Store) bool {
	e, ok := earlier.(*Store)
	return ok && (e == s || e.leaves == e.former.leaves.Load()) && !s.Lacks(e)
}

// Lacks implements [storage.Network].
func (s *Store) Lacks(earlier storage.Store) bool {
	e, ok := earlier.(*Store)
	return !ok || e.place != s.place || e != s && e.losses != e.former.losses.Load()
}

// Close implements [storage.Store]. The store's record stays until it expires, or until the next store
// is opened, which learns from it whether the server has lost writes.
func (s *Store) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.closed.Swap(true) {
		return fmt.Errorf("redis: close: %w", storage.ErrClosed)
	}
	s.former.add(record{s.machine, s.seq})
	s.hangUp()
	return nil
}
