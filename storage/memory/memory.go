package memory

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/internal/slab"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/rows"
)

// Defaults and bounds of [Options].
const (
	DefaultMaxSize = 256 << 20
	MinMaxSize     = 1 << 20
)

// Options say how a store uses its database. The zero value is the default.
type Options struct {
	// MaxSize is the maximum size of the database in bytes, an estimate; see [storage.Stats]. When it is
	// reached, claims and offenses fail until a sweep makes room. It is raised to at least [MinMaxSize].
	// Zero means [DefaultMaxSize].
	MaxSize int64
}

// Database holds the data of stores. Several stores may use it at once. It must be made by [New].
type Database struct {
	mu      sync.Mutex
	shards  [shards]shard // guarded by mu, like all below
	bytes   int64         // of the entries, estimated
	clock   storage.TimeRecord
	resets  []storage.Reset // the known resets, in order
	history rowList         // has a lock of its own, like acts
	acts    rowList
	next    int // the shard that the next step of a sweep begins with
	stores  int // that are open

	counts slab.Slab // of states
	rooms  [2]state  // buffers for the states of a claim
	room   []byte    // a buffer for the record of a state
	text   []byte    // a buffer for the encoded state

	period atomic.Uint32 // the period in which only one store is open, see [storage.Local]; or 0
}

// shards is the number of maps, so many that each has a few hundred entries when there are millions. It isn't a
// power of 2, so that the maps don't all have just doubled with one or two million keys.
const shards = 3 << 10

// shard holds the entries of the keys that begin with the same bits.
type shard struct {
	states  map[stateKey]slab.Ref
	bytes   int64                             // of the states
	clients map[storage.Key]reputation.Record // with times that were never set, see recordLocked
}

// New returns an empty database.
func New() *Database {
	return &Database{history: rowList{lists: make(map[byte][]row)}, acts: rowList{lists: make(map[byte][]row)}}
}

// State returns a copy of a key's usage of a limit, for tests and tools.
func (db *Database) State(id storage.LimitID, key storage.Key) limiter.State {
	db.mu.Lock()
	defer db.mu.Unlock()
	var st state
	db.readLocked(stateKey{id, key}, &st)
	return st.State
}

// Time returns the record of the database's time, for tests and tools.
func (db *Database) Time() storage.TimeRecord {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.clock
}

// addLocked adds to the bytes of a shard's states.
func (db *Database) addLocked(sh *shard, bytes int64) {
	sh.bytes += bytes
	db.bytes += bytes
}

// shardOf returns the shard of a key. Keys are hashes, so their first bits spread them.
func (db *Database) shardOf(key storage.Key) *shard {
	return &db.shards[(int(key[0])<<8|int(key[1]))%shards]
}

// Opener returns an opener of stores on the database.
func (db *Database) Opener(o Options) storage.Opener {
	o.MaxSize = max(cmp.Or(o.MaxSize, DefaultMaxSize), MinMaxSize)
	return func(ctx context.Context) (storage.Store, error) {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("memory: open: %w", err)
		}
		s := &Store{db: db, maxSize: o.MaxSize}
		s.Side = rows.New(side{s, &db.history, maxHistory}, side{s, &db.acts, math.MaxInt})
		db.mu.Lock()
		defer db.mu.Unlock()
		db.addStoreLocked(1)
		return s, nil
	}
}

// Store is a [storage.Local] on a [Database]. Its methods are safe for concurrent use. Of all stores on one
// database, one method runs at a time.
type Store struct {
	*rows.Side
	db      *Database
	maxSize int64
	closed  bool               // guarded by db.mu
	last    storage.TimeRecord // guarded by db.mu: the time of the last call within a term
	shared  bool               // guarded by db.mu: other processes can read the clock of that time
}

// with runs f with the database locked, unless the store is closed or the context is done.
func (s *Store) with(ctx context.Context, doing string, f func(db *Database) error) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	err := ctx.Err()
	if s.closed {
		err = storage.ErrClosed
	}
	if err == nil {
		err = f(s.db)
	}
	if err != nil {
		return fmt.Errorf("memory: %s: %w", doing, err)
	}
	return nil
}

// checkRoomLocked returns an error if the database is full, even after a step of a sweep.
func (s *Store) checkRoomLocked(t storage.Time) error {
	if s.db.bytes < s.maxSize {
		return nil
	}
	s.db.sweepLocked(t)
	if s.db.bytes < s.maxSize {
		return nil
	}
	return fmt.Errorf("the counts take %d bytes of memory, and may take %d: there is room again when some have expired",
		s.db.bytes, s.maxSize)
}

// Stats implements [storage.Store]. Bytes is an estimate of the memory of the entries, without the spare room in
// Go's maps.
func (s *Store) Stats(ctx context.Context) (stats storage.Stats, err error) {
	err = s.with(ctx, "stats", func(db *Database) error {
		stats.Bytes = db.bytes
		return nil
	})
	return stats, err
}

// Continues implements [storage.Store].
func (s *Store) Continues(earlier storage.Store) bool {
	e, ok := earlier.(*Store)
	return ok && e.db == s.db
}

// Close implements [storage.Store]. The data stays in the database. A second call returns [storage.ErrClosed].
func (s *Store) Close() error {
	return s.with(context.Background(), "close", func(db *Database) error {
		s.closed = true
		db.addStoreLocked(-1)
		return nil
	})
}
