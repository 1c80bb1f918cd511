package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Store is a [storage.Store] on a server. Its methods are safe for concurrent use; calls that
// change something run one after the other.
type Store struct {
	options Options
	names   names
	client  rueidis.Client
	conns   *conns
	fences  *fences
	place   string // the id of the place
	machine string // the key of this store's record
	calls   storage.Calls
	closed  atomic.Bool
	lost    atomic.Bool // writes were lost, or may have been

	turn    chan struct{} // holds a token while a call is under way
	seq     int64         // guarded by turn, like all below: of the last call that wrote
	broken  error         // why the store can't be used any more
	clock   clock
	cursor  uint64 // where the next step of a sweep goes on
	evicted int64  // keys that the server had evicted when it was opened
}

const (
	format = "1" // of what is kept
	// stays is how long a machine is known that makes no call.
	stays = 2 * time.Hour
	// openTimeout is how long opening may take.
	openTimeout = time.Second
)

// Opener returns what opens stores on a server. It touches nothing itself.
func Opener(o Options) storage.Opener {
	o.Prefix, o.Timeout = cmp.Or(o.Prefix, DefaultPrefix), cmp.Or(o.Timeout, DefaultTimeout)
	fenced := new(fences)
	return func(ctx context.Context) (storage.Store, error) {
		s, err := open(ctx, o, fenced)
		if err != nil {
			return nil, fmt.Errorf("redis: open: %w", err)
		}
		return s, nil
	}
}

func open(ctx context.Context, o Options, fenced *fences) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	s := &Store{options: o, names: names(o.Prefix), conns: newConns(o.dial), fences: fenced, turn: make(chan struct{}, 1)}
	s.calls = storage.Calls{Claim: s.claim, Records: s.readRecords, Punish: s.punish, Sweep: s.sweep}
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

// enter makes the place if there is nothing, and this machine's record in it.
func (s *Store) enter(ctx context.Context) error {
	late := s.fences.list()
	keys := append([]string{s.names.meta(), s.machine}, late...)
	reply, err := openScript.Exec(ctx, s.client, keys, []string{format, randomID(), strconv.FormatInt(stays.Milliseconds(), 10)}).ToArray()
	if err != nil {
		return explain(err)
	}
	status, value, err := pairOf(reply)
	if err != nil {
		return err
	}
	if status == "foreign" {
		return fmt.Errorf("%w: %s holds something else (%s): write another prefix", storage.ErrForeign, s.names.meta(), value)
	}
	s.fences.remove(late)
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
	return ok && e.place == s.place && (e == s || !e.lost.Load())
}

// Close implements [storage.Store]. Calls of this store that are late have no effect any more.
func (s *Store) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.closed.Swap(true) {
		return fmt.Errorf("redis: close: %w", storage.ErrClosed)
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout/2)
	defer cancel()
	if s.broken != nil || s.client.Do(ctx, s.client.B().Del().Key(s.machine).Build()).Error() != nil {
		s.fences.add(s.machine)
	}
	s.hangUp()
	return nil
}

// hangUp ends all connections at once: a server that is silent would hold up the client.
func (s *Store) hangUp() {
	s.conns.close()
	s.client.Close()
}

// fences are the records of machines that are gone, and whose calls may still be on their way. They
// are removed before the place is used again.
type fences struct {
	mu   sync.Mutex
	keys []string // guarded by mu
}

// maxFences is how many records are removed when a server comes back. Others expire.
const maxFences = 64

func (f *fences) add(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys = append(f.keys, key)
	f.keys = f.keys[max(len(f.keys)-maxFences, 0):]
}

func (f *fences) list() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.keys...)
}

func (f *fences) remove(keys []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := f.keys[:0]
	for _, key := range f.keys {
		if !contains(keys, key) {
			left = append(left, key)
		}
	}
	f.keys = left
}
