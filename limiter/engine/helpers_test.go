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
	limits  map[storage.LimitID]limiter.Limit  // guarded by mu: as last claimed from
	time    storage.TimeRecord                 // guarded by mu
}

type diskKey struct {
	id  storage.LimitID
	key storage.Key
}

func newDisk() *disk {
	return &disk{
		states:  make(map[diskKey]*limiter.State),
		clients: make(map[storage.Key]*reputation.Record),
		limits:  make(map[storage.LimitID]limiter.Limit),
	}
}

// used returns what the disk says is used of a key.
func (d *disk) used(l *Limit, key string, now int64) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	copied := d.stateOfLocked(l, key, now)
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
	own    storage.TimeRecord // guarded by disk.mu
	calls  atomic.Int64
	claims atomic.Int64
	closed atomic.Bool
}

func (s *memoryStore) Claim(ctx context.Context, claims []storage.Claim, grants []limiter.Grant) error {
	return s.claim(nil, claims, grants)
}

func (s *memoryStore) claim(term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
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
	if err := s.apply(term, claims, grants); err != nil {
		return err
	}
	if s.after != nil {
		return s.after()
	}
	return nil
}

func (s *memoryStore) apply(term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.beginLocked(term); err != nil {
		return err
	}
	for i, c := range claims {
		if term != nil {
			c.Now = term.Time.Now
		}
		k := diskKey{c.ID, c.Key}
		if s.states[k] == nil {
			s.states[k] = new(limiter.State)
		}
		former := diskKey{c.ID, c.Former}
		if was := s.states[former]; was != nil && c.Former != (storage.Key{}) {
			c.Limit.Merge(s.states[k], *was, c.Now)
			delete(s.states, former)
		}
		s.limits[c.ID] = c.Limit
		grants[i] = c.Limit.Claim(s.states[k], c.Claim)
	}
	return nil
}

func (s *memoryStore) Records(_ context.Context, clients []storage.Client, _ int64, records []reputation.Record) error {
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

// Sweep deletes all that doesn't count, of limits that are known.
func (s *memoryStore) Sweep(_ context.Context, now int64) (storage.Swept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked(now)
	return storage.Swept{}, nil
}

func (d *disk) sweepLocked(now int64) {
	for k, state := range d.states {
		limit, known := d.limits[k.id]
		if !known {
			continue
		}
		limit.Trim(state, now)
		is := *state
		if g := limit.Claim(&is, limiter.Claim{Now: now}); len(state.Slots) == 0 && g.Used == 0 && g.Part == 0 {
			delete(d.states, k)
		}
	}
}

// beginLocked tells the time, and forgets what was counted before if it was set
// back.
func (s *memoryStore) beginLocked(term *storage.Term) error {
	if term == nil {
		return nil
	}
	s.tellLocked(term)
	if !term.Holds(term.Time) {
		return storage.ErrTerm
	}
	return nil
}

func (s *memoryStore) tellLocked(term *storage.Term) {
	was, r := s.time, term.Clock.Read()
	told, must := was.Tell(r, s.own)
	if told.Era != was.Era {
		clear(s.states)
	}
	if by := told.Shift - was.Shift; by != 0 {
		for _, record := range s.clients {
			record.Move(by)
		}
	}
	if must || was.Due(told, r) {
		told = told.Measured(r)
		s.time = told
	}
	s.own, term.Time = told, told.Time
}

// Within implements [storage.Timekeeper].
func (s *memoryStore) Within(term *storage.Term) storage.Store { return timed{s, term} }

// Time implements [storage.Timekeeper].
func (s *memoryStore) Time(from storage.Clock, least int64) (storage.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.time == (storage.TimeRecord{}) {
		s.time.Now = least
	}
	term := storage.Term{Clock: from}
	s.tellLocked(&term)
	return term.Time, nil
}

// timed is a memory store within a term.
type timed struct {
	*memoryStore
	term *storage.Term
}

func (s timed) Claim(_ context.Context, claims []storage.Claim, grants []limiter.Grant) error {
	return s.claim(s.term, claims, grants)
}

func (s timed) Records(ctx context.Context, clients []storage.Client, now int64, records []reputation.Record) error {
	s.mu.Lock()
	err := s.beginLocked(s.term)
	s.mu.Unlock()
	return errors.Join(err, s.memoryStore.Records(ctx, clients, now, records))
}

func (s timed) Punish(ctx context.Context, offenses []storage.Offense, records []reputation.Record) error {
	s.mu.Lock()
	err := s.beginLocked(s.term)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.memoryStore.Punish(ctx, offenses, records)
}

func (s timed) Sweep(context.Context, int64) (storage.Swept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.beginLocked(s.term); err != nil {
		return storage.Swept{}, err
	}
	s.sweepLocked(s.term.Time.Now)
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
func testNames(id storage.LimitID, key string, _ time.Duration, _ int64) (Name, error) {
	return Name{Key: testName(id, key)}, nil
}

// banned reports whether a client has ever been banned.
func (d *disk) banned(key storage.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clients[key] != nil && d.clients[key].Until > 0
}

// banningFor is an offense that bans for so long.
func banningFor(d time.Duration) reputation.Offense {
	return reputation.Offense{Violation: reputation.Violation{Reason: reputation.Trapped}, Ban: reputation.Ban{After: 1, Within: time.Hour, For: d}}
}

// fakeClock is a clock that tests move.
type fakeClock struct{ wall, elapsed, slept atomic.Int64 }

// newFakeClock starts somewhere in the middle of slots and windows.
func newFakeClock() *fakeClock {
	c := new(fakeClock)
	c.wall.Store(time.Date(2026, 3, 29, 0, 59, 59, 123456789, time.UTC).UnixNano())
	return c
}

func (c *fakeClock) Read() (r storage.Reading, elapsed int64) {
	elapsed = c.elapsed.Load()
	return storage.Reading{Wall: c.wall.Load(), Steady: elapsed + c.slept.Load(), Source: storage.Source{1}, Shared: true}, elapsed
}
func (c *fakeClock) Elapsed() int64 { return c.elapsed.Load() }

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
func (f *fixture) ask(debits ...Debit) Decision {
	return f.Decide(context.Background(), nil, debits)
}

func debit(l *Limit, key string, cost int64) Debit {
	return Debit{Limit: l, Key: []byte(key), Cost: cost}
}

// count asks n times and returns how many were allowed.
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
