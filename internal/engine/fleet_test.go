package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine/clock"
	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// fleetDisk is a disk, with the number of the last write of each session. It is guarded by the
// fleet's mu.
type fleetDisk struct {
	*disk
	numbers map[int64]int64
}

func newFleetDisk() *fleetDisk { return &fleetDisk{newDisk(), make(map[int64]int64)} }

// fateFunc determines the fate of a call on its way.
type fateFunc = func(ctx context.Context, apply func() error) error

// fleet is machines that share a store behind a network, in virtual time.
type fleet struct {
	t     *testing.T
	disk  atomic.Pointer[fleetDisk] // the one in use
	clock simClock                  // of the machine with the disk
	trip  time.Duration             // the duration of each call
	most  int                       // the maximum number of claims in a call
	fate  atomic.Pointer[fateFunc]

	calls   atomic.Int64 // of any kind
	claims  atomic.Int64 // calls that claim
	largest atomic.Int64 // the most claims of one call

	tracer   *tracer // nil if nothing is traced
	sessions atomic.Int64
	mu       sync.Mutex      // held while a call is applied
	stays    map[int64]int64 // guarded by mu: until when each process is present
}

func newFleet(t *testing.T, trip time.Duration) *fleet {
	f := &fleet{t: t, trip: trip, most: 128, stays: make(map[int64]int64)}
	f.clock.source = storage.Source{9}
	f.disk.Store(newFleetDisk())
	f.let(f.travel)
	return f
}

// let sets the function that determines the fate of all calls.
func (f *fleet) let(fate fateFunc) { f.fate.Store(&fate) }

// reader returns the clock of the machine with the disk.
func (f *fleet) reader() storage.Clock {
	var at clock.Stamp
	clock.New(&f.clock).Stamp(&at)
	return &at
}

// travel takes a round trip. The call is applied in the middle of it.
func (f *fleet) travel(ctx context.Context, apply func() error) error {
	if err := pass(ctx, f.trip/2); err != nil {
		return err
	}
	err := apply()
	if ended := pass(ctx, f.trip-f.trip/2); ended != nil {
		return fmt.Errorf("%w: %w", ended, storage.ErrUnknownOutcome)
	}
	return err
}

// pass lets time pass, or returns the error of a context that ends before.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// machine is an engine in a fleet, with clocks of its own.
type machine struct {
	*Engine
	fleet  *fleet
	number int // in the trace
	wall   simClock
	dead   atomic.Bool // it opens no store any more
}

func (m *machine) open(ctx context.Context) (storage.Store, error) {
	if m.dead.Load() {
		return nil, errDisk
	}
	store, err := m.fleet.open(ctx)
	store.(*fleetStore).machine = m.number
	return store, err
}

// start starts a machine whose wall clock is off by a duration.
func (f *fleet) start(wrong time.Duration, change ...func(*Options)) *machine {
	f.t.Helper()
	m := &machine{fleet: f}
	m.wall.set.Store(int64(wrong))
	m.wall.source = storage.Source{3, byte(len(change)), byte(f.calls.Load())}
	opts := Options{Open: f.open, Name: testNames, Clock: &m.wall, Remote: true}
	for _, c := range change {
		c(&opts)
	}
	m.Engine = New(opts)
	<-m.Ready()
	synctest.Wait()
	return m
}

func (f *fleet) open(ctx context.Context) (storage.Store, error) {
	s := &fleetStore{fleet: f, session: f.sessions.Add(1)}
	return s, (*f.fate.Load())(ctx, func() error { return nil })
}

func (m *machine) ask(debits ...Debit) Decision { return m.Decide(context.Background(), nil, debits) }

// count sends n requests and returns how many were allowed.
func (m *machine) count(n int, debits ...Debit) (allowed int) {
	for range n {
		if m.ask(debits...).Allowed {
			allowed++
		}
	}
	return allowed
}

// fleetStore is a store on a disk behind a network. Its writes have numbers, and the last number is
// stored with the written data. So no write takes effect twice, and lost writes are detected. No
// write takes effect after the store was closed.
type fleetStore struct {
	storage.Network // nil: an engine makes no call without a term
	fleet           *fleet
	session         int64
	machine         int // in the trace

	mu     sync.Mutex
	closed bool            // guarded by mu, like all below
	sent   int64           // the number of the last write
	known  int64           // the last one that was answered
	disk   *fleetDisk      // the last used disk
	raw    storage.Network // on that disk
}

// do makes a call and counts it.
func (s *fleetStore) do(ctx context.Context, apply func(raw storage.Network) error) error {
	s.fleet.calls.Add(1)
	return (*s.fleet.fate.Load())(ctx, func() error { return s.arrive(apply) })
}

// write makes a call that writes. However often it arrives, it is applied once.
func (s *fleetStore) write(ctx context.Context, apply func(raw storage.Network) error) error {
	s.mu.Lock()
	s.sent++
	number := s.sent
	s.mu.Unlock()
	applied, failed := false, error(nil)
	err := s.do(ctx, func(raw storage.Network) error {
		if !applied {
			applied = true
			if number < s.disk.numbers[s.session] {
				return errors.New("test: a later call has overtaken this one")
			}
			failed = apply(raw)
			if failed == nil {
				s.disk.numbers[s.session] = number
			}
		}
		return failed
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.known = number
	}
	return err
}

// arrive applies a call on the disk.
func (s *fleetStore) arrive(apply func(raw storage.Network) error) error {
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return storage.ErrClosed
	}
	if now := s.fleet.disk.Load(); now != s.disk {
		s.disk, s.raw = now, now.raw()
	}
	if s.disk.numbers[s.session] < s.known {
		return fmt.Errorf("test: %w", storage.ErrLostWrites)
	}
	return apply(s.raw)
}

// holdsAll reports whether all acknowledged writes are on the disk.
func (s *fleetStore) holdsAll() bool {
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fleet.disk.Load().numbers[s.session] >= s.known
}

// caller is do or write of a fleetStore.
type caller = func(ctx context.Context, apply func(raw storage.Network) error) error

// call makes a call within a term, by the clock of the machine with the disk. The caller's clock
// is read before. The results of a call that arrives too late are dropped: take copies them to the
// caller.
func (s *fleetStore) call(ctx context.Context, term *storage.Term, by caller, apply func(raw storage.Network, term *storage.Term) error, take func()) error {
	term.Clock.Read()
	there := *term
	there.Clock = s.fleet.reader()
	err := by(ctx, func(raw storage.Network) error { return apply(raw, &there) })
	s.mu.Lock()
	defer s.mu.Unlock()
	term.Time = there.Time
	if err == nil {
		take()
	}
	return err
}

func (s *fleetStore) Claim(ctx context.Context, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	return s.ClaimFor(ctx, term, nil, nil, claims, grants)
}

func (s *fleetStore) ClaimFor(ctx context.Context, term *storage.Term, clients []storage.Client, records []reputation.Record, claims []storage.Claim, grants []limiter.Grant) error {
	s.fleet.claims.Add(1)
	s.fleet.largest.Store(max(s.fleet.largest.Load(), int64(len(claims))))
	claims, clients = slices.Clone(claims), slices.Clone(clients)
	read, granted := make([]reputation.Record, len(clients)), make([]limiter.Grant, len(claims))
	return s.call(ctx, term, s.write, func(raw storage.Network, term *storage.Term) error {
		s.disk.note(claims)
		err := raw.ClaimFor(context.Background(), term, clients, read, claims, granted)
		if err == nil {
			s.fleet.tracer.claimed(s.machine, s.disk.db.Load(), term.Time, claims, granted)
		}
		return err
	}, func() {
		copy(records, read)
		copy(grants, granted)
	})
}

func (s *fleetStore) Records(ctx context.Context, term *storage.Term, clients []storage.Client, records []reputation.Record) error {
	return s.ClaimFor(ctx, term, clients, records, nil, nil)
}

func (s *fleetStore) Punish(ctx context.Context, term *storage.Term, offenses []storage.Offense, records []reputation.Record) error {
	result := make([]reputation.Record, len(records))
	return s.call(ctx, term, s.write, func(raw storage.Network, term *storage.Term) error {
		return raw.Punish(context.Background(), term, offenses, result)
	}, func() { copy(records, result) })
}

func (s *fleetStore) Sweep(ctx context.Context, term *storage.Term) (swept storage.Swept, err error) {
	var did storage.Swept
	err = s.call(ctx, term, s.do, func(raw storage.Network, term *storage.Term) (err error) {
		did, err = raw.Sweep(context.Background(), term)
		return err
	}, func() { swept = did })
	return swept, err
}

func (s *fleetStore) Reset(ctx context.Context, term *storage.Term, resets []storage.Reset) error {
	return s.call(ctx, term, s.write, func(raw storage.Network, term *storage.Term) error {
		return raw.Reset(context.Background(), term, resets)
	}, func() {})
}

func (s *fleetStore) Resets(ctx context.Context, after int64) (storage.Resets, error) {
	news, err := s.News(ctx, storage.Seen{Resets: after})
	return news.Resets, err
}

func (s *fleetStore) PutNotes(ctx context.Context, notes []storage.Note, replay bool) error {
	put := slices.Clone(notes)
	err := s.write(ctx, func(raw storage.Network) error {
		return raw.PutNotes(context.Background(), put, replay)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		copy(notes, put)
	}
	return err
}

func (s *fleetStore) News(ctx context.Context, seen storage.Seen) (news storage.News, err error) {
	var answer storage.News
	err = s.do(ctx, func(raw storage.Network) (err error) {
		answer, err = raw.News(context.Background(), seen)
		answer.Processes = len(s.fleet.stays)
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		news = answer
	}
	return news, err
}

func (s *fleetStore) Time(from storage.Clock, least int64) (now storage.Time, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	term := storage.Term{Clock: from}
	err = s.call(ctx, &term, s.do, func(raw storage.Network, term *storage.Term) (err error) {
		term.Time, err = raw.Time(term.Clock, least)
		return err
	}, func() {})
	return term.Time, err
}

func (s *fleetStore) Join(ctx context.Context, id, now, until int64) (p storage.Presence, err error) {
	var presence storage.Presence
	err = s.do(ctx, func(storage.Network) error {
		s.fleet.stays[id] = until
		maps.DeleteFunc(s.fleet.stays, func(_, until int64) bool { return until <= now })
		presence.Processes = len(s.fleet.stays)
		for other := range s.fleet.stays {
			if other < id {
				presence.Process++
			}
		}
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		p = presence
	}
	return p, err
}

func (s *fleetStore) Leave(ctx context.Context, id int64) error {
	return s.do(ctx, func(storage.Network) error {
		delete(s.fleet.stays, id)
		return nil
	})
}

func (s *fleetStore) Probe(ctx context.Context, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	return s.call(ctx, term, s.do, func(raw storage.Network, term *storage.Term) error {
		return raw.Probe(context.Background(), term, claims, grants)
	}, func() {})
}

func (s *fleetStore) Stats(ctx context.Context) (storage.Stats, error) {
	return storage.Stats{}, s.do(ctx, func(storage.Network) error { return nil })
}

func (s *fleetStore) Continues(earlier storage.Store) bool {
	e, ok := earlier.(*fleetStore)
	return ok && e.fleet == s.fleet && e.holdsAll()
}

func (s *fleetStore) Lacks(earlier storage.Store) bool { return !s.Continues(earlier) }

func (s *fleetStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (s *fleetStore) MaxBatch() int { return s.fleet.most }

var _ storage.Network = (*fleetStore)(nil)

// Names change every minute. A machine whose time is ahead of the store's needs one just before a minute
// begins, when no machine has one yet of the minute before. Another machine then counts under such a name. The
// first machine's call arrives in the new minute, and finds that count.
func TestNamesOfAMachineAheadOfTheStore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		named := make(map[int64]bool) // guarded by mu: minutes that have a name of the key
		names := func(id storage.LimitID, key string, _ time.Duration, now int64) (Name, error) {
			if key != "a" {
				return Name{Key: testName(id, key)}, nil
			}
			mu.Lock()
			defer mu.Unlock()
			const length = int64(time.Minute)
			minute := now / length
			named[minute] = true
			n := Name{Key: testName(id, fmt.Sprint(key, minute)), From: minute * length, Until: (minute + 1) * length}
			if named[minute-1] {
				n.Former = testName(id, fmt.Sprint(key, minute-1))
			}
			return n, nil
		}
		fleet := newFleet(t, time.Millisecond)
		patient := func(o *Options) { o.StoreTimeout, o.Name = time.Minute, names }
		ahead, other := fleet.start(0, patient), fleet.start(0, patient)
		limit := sliding(t, 1, time.Hour)
		late := func(ctx context.Context, apply func() error) error { // the store reads its clock late
			_ = pass(ctx, 80*time.Millisecond)
			return apply()
		}
		next := time.Now().Truncate(time.Minute).Add(time.Minute)
		time.Sleep(time.Until(next) - time.Second)
		fleet.let(late)
		ahead.ask(debit(limit, "another", 1))
		time.Sleep(time.Until(next) - 50*time.Millisecond)
		if before := time.Duration(ahead.clock.Now() - next.UnixNano()); before < 0 {
			t.Errorf("the machine is not ahead of the store: it is %v before the minute", -before)
		}
		allowed := make(chan bool)
		go func() { allowed <- ahead.ask(debit(limit, "a", 1)).Allowed }()
		time.Sleep(30 * time.Millisecond)
		fleet.let(fleet.travel)
		if !other.ask(debit(limit, "a", 1)).Allowed {
			t.Error("the request before the minute was refused")
		}
		if <-allowed {
			t.Error("2 of 1 passed")
		}
		_, _ = ahead.Close(t.Context()), other.Close(t.Context())
	})
}
