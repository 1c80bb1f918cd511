package engine

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/caddy-tally/caddy-tally/internal/engine/table"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

var errDisk = errors.New("test: the disk is gone")

// testName is a name that shows the key, for lookups.
func testName(id storage.LimitID, key string) (name storage.Key) {
	copy(name[:], key)
	return name
}

// testNames returns the names of keys for an engine.
func testNames(id storage.LimitID, key string, _ time.Duration, _ int64) (Name, error) {
	return Name{Key: testName(id, key)}, nil
}

// banningFor is an offense that bans for a duration.
func banningFor(d time.Duration) reputation.Offense {
	return reputation.Offense{Violation: reputation.Violation{Reason: reputation.Trapped}, Ban: reputation.Ban{After: 1, Within: time.Hour, For: d}}
}

// fixture is an engine on a store in memory.
type fixture struct {
	*Engine
	t     *testing.T
	disk  *disk
	store *hookedStore
	fake  *fakeClock
}

func newFixture(t *testing.T, change ...func(*Options)) *fixture {
	t.Helper()
	return startOn(t, newDisk(), newFakeClock(), change...)
}

func startOn(t *testing.T, d *disk, clock *fakeClock, change ...func(*Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, disk: d, store: &hookedStore{disk: d}, fake: clock}
	opts := Options{
		resetInterval: 1000 * time.Hour,
		Open:          func(context.Context) (storage.Store, error) { return f.store, nil },
		Name:          testNames,
		Clock:         clock,
		StoreTimeout:  time.Minute, // tests wait for it only on purpose
	}
	for _, c := range change {
		c(&opts)
	}
	e := New(opts)
	f.Engine = e
	t.Cleanup(func() { e.Close(context.Background()) })
	return f
}

// ask decides one request.
func (f *fixture) ask(debits ...Debit) Decision {
	return f.Decide(context.Background(), nil, debits)
}

func debit(l *Limit, key string, cost int64) Debit {
	return Debit{Limit: l, Key: []byte(key), Cost: cost}
}

// count sends n requests and returns how many were allowed.
func (f *fixture) count(n int, debits ...Debit) (allowed int) {
	for range n {
		if f.ask(debits...).Allowed {
			allowed++
		}
	}
	return allowed
}

var nextID atomic.Uint64

func newLimit(t testing.TB, p limiter.Params) *Limit {
	t.Helper()
	l, err := limiter.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return &Limit{ID: storage.LimitID(nextID.Add(1)), Rate: l}
}

func sliding(t testing.TB, amount int64, window time.Duration) *Limit {
	return newLimit(t, limiter.Params{Amount: amount, Window: window})
}

// with returns the limit with another amount, under the same ID.
func (l *Limit) with(t testing.TB, amount int64) *Limit {
	t.Helper()
	changed, err := l.WithAmount(amount, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &Limit{ID: l.ID, Rate: changed}
}

var algorithms = []limiter.Algorithm{limiter.Sliding, limiter.Fixed, limiter.TokenBucket}

// eventually waits for a condition that another goroutine makes true.
func eventually(t *testing.T, true func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !true(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("waited for 30 seconds in vain")
		}
	}
}

// shards is the number of shards of a table, each of which may hold one key too many for a moment.
const shards = 64

// shardLocks returns the locks of a table's shards, by shard.
func shardLocks(t *cells) map[unsafe.Pointer]*sync.Mutex {
	locks := make(map[unsafe.Pointer]*sync.Mutex)
	all := reflect.ValueOf(&t.Table).Elem().FieldByName("shards")
	for i := range all.Len() {
		shard := all.Index(i)
		locks[unsafe.Pointer(shard.UnsafeAddr())] = (*sync.Mutex)(unsafe.Pointer(shard.FieldByName("mu").UnsafeAddr()))
	}
	return locks
}

// shardOf and moveLocked are methods of the table that only it calls. Tests move cells at any moment.
//
//go:linkname shardOf github.com/caddy-tally/caddy-tally/internal/engine/table.(*Table).shardOf
func shardOf(t *table.Table, id storage.LimitID, key []byte) (shard unsafe.Pointer, hash uint32)

//go:linkname moveLocked github.com/caddy-tally/caddy-tally/internal/engine/table.(*Table).moveLocked
func moveLocked(t *table.Table, shard unsafe.Pointer, e *table.Entry) bool
