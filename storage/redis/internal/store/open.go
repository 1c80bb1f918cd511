package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
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

// enter creates the place if there is none, and this machine's record in it. It removes the records of
// stores that were closed before, and finds out from them whether writes of these were lost.
func (s *Store) enter(ctx context.Context) error {
	s.losses, s.leaves = s.former.losses.Load(), s.former.leaves.Load()
	late := s.former.list()
	keys := []string{s.names.meta(), s.machine}
	args := []string{format, oldestReader, randomID(), strconv.FormatInt(stays.Milliseconds(), 10)}
	for _, r := range late {
		keys, args = append(keys, r.key), append(args, strconv.FormatInt(r.seq, 10))
	}
	reply, err := openScript.Exec(ctx, s.client, keys, args).ToArray()
	if err != nil {
		return explain(err)
	}
	status, value, err := pairOf(reply)
	if err != nil {
		return err
	}
	switch status {
	case "foreign":
		return fmt.Errorf("%w: %s holds something else (%s): write another prefix", storage.ErrForeign, s.names.meta(), value)
	case "later":
		return fmt.Errorf("%w: %s has the format %s, which this caddy-tally doesn't know: update it, or write another prefix", storage.ErrForeign, s.names.meta(), value)
	case "timeless":
		return fmt.Errorf("scripts can't ask this server for its time (TIME: %s): expected Redis 5 or later, Valkey or KeyDB, and a user with the right +time", value)
	case "lost":
		s.losses = s.former.losses.Add(1)
	}
	s.former.remove(late)
	s.place = value
	return s.inspect(ctx)
}

func pairOf(reply []rueidis.RedisMessage) (first, second string, err error) {
	if len(reply) < 2 {
		return "", "", errors.New("the server's answer is too short")
	}
	first, err = reply[0].ToString()
	if err == nil {
		second, err = reply[1].ToString()
	}
	return first, second, err
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

// hangUp ends all connections without waiting for the server, which may be silent.
func (s *Store) hangUp() {
	s.conns.close()
	s.client.Close()
}
