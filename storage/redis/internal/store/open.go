package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Store is a [storage.Network] on a server. Its methods are safe for concurrent use. Calls that change
// something run one after the other. Most methods are those of its parts, each of which has its own keys
// on the server.
type Store struct {
	acts
	claims
	news
	notes
	presence
	records
	resets
	vault

	server    *server
	machine   *machine
	evictions *evictions
}

var _ storage.Network = (*Store)(nil)

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
	server, err := reach(ctx, o)
	if err != nil {
		return nil, err
	}
	m := newMachine(server, before)
	watch := &evictions{machine: m}
	if err = m.enter(ctx); err == nil {
		err = watch.inspect(ctx)
	}
	if err != nil {
		server.hangUp()
		return nil, err
	}
	return &Store{
		acts{server}, claims{m}, news{m}, notes{m}, presence{server}, records{m}, resets{m}, vault{server},
		server, m, watch,
	}, nil
}

// Continues implements [storage.Store].
func (s *Store) Continues(earlier storage.Store) bool {
	e, ok := earlier.(*Store)
	return ok && (e == s || e.machine.leaves == e.machine.former.leaves.Load()) && !s.Lacks(e)
}

// Lacks implements [storage.Network].
func (s *Store) Lacks(earlier storage.Store) bool {
	e, ok := earlier.(*Store)
	return !ok || e.machine.place != s.machine.place || e != s && e.machine.losses != e.machine.former.losses.Load()
}

// Close implements [storage.Store]. The store's record stays until it expires, or until the next store
// is opened, which learns from it whether the server has lost writes.
func (s *Store) Close() error {
	return s.machine.leave()
}
