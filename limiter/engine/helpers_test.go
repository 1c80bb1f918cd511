package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// disk is what survives engines: the states that memory stores share.
type disk struct {
	mu      sync.Mutex
	states  map[diskKey]*limiter.State         // guarded by mu
	clients map[storage.Key]*reputation.Record // guarded by mu
}

type diskKey struct {
	id  storage.LimitID
	key storage.Key
}

func newDisk() *disk {
	return &disk{states: make(map[diskKey]*limiter.State), clients: make(map[storage.Key]*reputation.Record)}
}

// used returns what the disk says is used of a key.
func (d *disk) used(l *Limit, key string, now int64) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.states[diskKey{l.ID, testName(l.ID, key)}]
	if s == nil {
		return 0
	}
	copied := limiter.State{Slots: append([]limiter.Slot(nil), s.Slots...), Bucket: s.Bucket}
	g := l.Claim(&copied, limiter.Claim{Now: now})
	if g.Part > 0 {
		g.Used++ // a part counts whole
	}
	return g.Used
}

// memoryStore is a store on a disk. Its hooks run before and after a batch is
// applied.
type memoryStore struct {
	*disk
	before func(claims []storage.Claim) error
	after  func() error
	calls  atomic.Int64
	claims atomic.Int64
	closed atomic.Bool
}

func (s *memoryStore) Claim(ctx context.Context, claims []storage.Claim, grants []limiter.Grant) error {
	s.calls.Add(1)
	s.claims.Add(int64(len(claims)))
	if s.closed.Load() {
		return storage.ErrClosed
	}
	if s.before != nil {
		if err := s.before(claims); err != nil {
			return err
		}
	}
	s.apply(claims, grants)
	if s.after != nil {
		return s.after()
	}
	return nil
}

func (s *memoryStore) apply(claims []storage.Claim, grants []limiter.Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range claims {
		k := diskKey{c.ID, c.Key}
		if s.states[k] == nil {
			s.states[k] = new(limiter.State)
		}
		grants[i] = c.Limit.Claim(s.states[k], c.Claim)
	}
}

func (s *memoryStore) Standings(_ context.Context, clients []storage.Client, _ int64, records []reputation.Record) error {
	if s.closed.Load() {
		return storage.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range clients {
		records[i] = *s.clientLocked(c.Key)
	}
	return nil
}

func (s *memoryStore) Punish(_ context.Context, offenses []storage.Offense, records []reputation.Record) error {
	if s.closed.Load() {
		return storage.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range offenses {
		r := s.clientLocked(o.Key)
		r.Commit(o.Offense)
		records[i] = *r
	}
	return nil
}

func (s *memoryStore) clientLocked(key storage.Key) *reputation.Record {
	if s.clients[key] == nil {
		s.clients[key] = new(reputation.Record)
	}
	return s.clients[key]
}

func (s *memoryStore) Sweep(context.Context, int64) (storage.Swept, error) {
	return storage.Swept{}, nil
}

func (s *memoryStore) Stats(context.Context) (storage.Stats, error) { return storage.Stats{}, nil }

func (s *memoryStore) Continues(earlier storage.Store) bool {
	e, ok := earlier.(*memoryStore)
	return ok && e.disk == s.disk
}

func (s *memoryStore) Close() error {
	s.closed.Store(true)
	return nil
}

var errDisk = errors.New("test: the disk is gone")

// testName is a name that shows the key, for looking it up.
func testName(id storage.LimitID, key string) (name storage.Key) {
	copy(name[:], key)
	return name
}

// testNames is what an engine names its keys with.
func testNames(id storage.LimitID, key string, _ time.Duration, _ int64) (name, former storage.Key, err error) {
	return testName(id, key), former, nil
}

// fakeClock is a clock that tests move.
type fakeClock struct{ wall, elapsed atomic.Int64 }

// newFakeClock starts somewhere in the middle of slots and windows.
func newFakeClock() *fakeClock {
	c := new(fakeClock)
	c.wall.Store(time.Date(2026, 3, 29, 0, 59, 59, 123456789, time.UTC).UnixNano())
	return c
}

func (c *fakeClock) Read() (wall, elapsed int64) { return c.wall.Load(), c.elapsed.Load() }
func (c *fakeClock) Elapsed() int64              { return c.elapsed.Load() }

func (c *fakeClock) advance(d time.Duration) {
	c.wall.Add(int64(d))
	c.elapsed.Add(int64(d))
}

// fixture is an engine on a memory store.
type fixture struct {
	*Engine
	t     *testing.T
	disk  *disk
	store *memoryStore
	fake  *fakeClock
}

func newFixture(t *testing.T, change ...func(*Options)) *fixture {
	t.Helper()
	return startOn(t, newDisk(), newFakeClock(), change...)
}

func startOn(t *testing.T, d *disk, clock *fakeClock, change ...func(*Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, disk: d, store: &memoryStore{disk: d}, fake: clock}
	opts := Options{
		Open:         func(context.Context) (storage.Store, error) { return f.store, nil },
		Name:         testNames,
		Clock:        clock,
		StoreTimeout: time.Minute, // no test waits for it unless it means to
	}
	for _, c := range change {
		c(&opts)
	}
	e, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	f.Engine = e
	t.Cleanup(func() { e.Close(context.Background()) })
	return f
}

// ask decides about one request.
func (f *fixture) ask(draws ...Draw) Decision {
	return f.Decide(context.Background(), draws)
}

func draw(l *Limit, key string, cost int64) Draw {
	return Draw{Limit: l, Key: []byte(key), Cost: cost}
}

// count asks n times and returns how many were allowed.
func (f *fixture) count(n int, draws ...Draw) (allowed int) {
	for range n {
		if f.ask(draws...).Allowed {
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
	return &Limit{ID: storage.LimitID(nextID.Add(1)), Limit: l}
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
	return &Limit{ID: l.ID, Limit: changed}
}

var algorithms = []limiter.Algorithm{limiter.Sliding, limiter.Fixed, limiter.TokenBucket}

// eventually waits for what another goroutine is about to bring about.
func eventually(t *testing.T, true func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !true(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("waited for 30 seconds in vain")
		}
	}
}
