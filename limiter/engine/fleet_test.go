package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// fateFunc makes of a call what becomes of it on its way.
type fateFunc = func(ctx context.Context, apply func() error) error

// fleet is machines that share a store behind a network, in virtual time.
type fleet struct {
	t     *testing.T
	disk  atomic.Pointer[disk] // the one that is in use
	clock simClock             // of the machine that has the disk
	trip  time.Duration        // that each call takes
	most  int                  // claims of a call
	fate  atomic.Pointer[fateFunc]

	calls   atomic.Int64 // of any kind
	claims  atomic.Int64 // calls that claim
	largest atomic.Int64 // claims of one call

	mu    sync.Mutex
	stays map[int64]int64 // guarded by mu: until when each process is here
}

func newFleet(t *testing.T, trip time.Duration) *fleet {
	f := &fleet{t: t, trip: trip, most: 128, stays: make(map[int64]int64)}
	f.clock.source = storage.Source{9}
	f.disk.Store(newDisk())
	f.let(f.travel)
	return f
}

// let has a function make of all calls what becomes of them.
func (f *fleet) let(fate fateFunc) { f.fate.Store(&fate) }

// reader returns the clock of the machine that has the disk.
func (f *fleet) reader() storage.Clock { return &stamp{source: &f.clock} }

// travel takes a round trip, in the middle of which a call is applied.
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
	fleet *fleet
	wall  simClock
}

// start starts a machine whose wall clock is wrong by so much.
func (f *fleet) start(wrong time.Duration, change ...func(*Options)) *machine {
	f.t.Helper()
	m := &machine{fleet: f}
	m.wall.set.Store(int64(wrong))
	m.wall.source = storage.Source{3, byte(len(change)), byte(f.calls.Load())}
	opts := Options{Open: f.open, Name: testNames, Clock: &m.wall, Remote: true}
	for _, c := range change {
		c(&opts)
	}
	var err error
	if m.Engine, err = New(opts); err != nil {
		f.t.Fatal(err)
	}
	<-m.Ready()
	synctest.Wait()
	return m
}

func (f *fleet) open(ctx context.Context) (storage.Store, error) {
	s := &fleetStore{fleet: f}
	err := (*f.fate.Load())(ctx, func() error {
		s.disk = f.disk.Load()
		s.raw = s.disk.raw()
		return nil
	})
	return s, err
}

func (m *machine) ask(debits ...Debit) Decision { return m.Decide(context.Background(), nil, debits) }

// count asks n times and returns how many were allowed.
func (m *machine) count(n int, debits ...Debit) (allowed int) {
	for range n {
		if m.ask(debits...).Allowed {
			allowed++
		}
	}
	return allowed
}

// fleetStore is a store on a disk behind a network.
type fleetStore struct {
	fleet *fleet
	disk  *disk
	raw   storage.Timekeeper
}

// do makes a call, which is counted.
func (s *fleetStore) do(ctx context.Context, apply func() error) error {
	s.fleet.calls.Add(1)
	return (*s.fleet.fate.Load())(ctx, apply)
}

// do makes a call within a term, with the clock of the machine that has the disk. That of the
// caller is read before.
func (t fleetTerm) do(ctx context.Context, apply func(term *storage.Term) error) error {
	t.term.Clock.Read()
	there := *t.term
	there.Clock = t.store.fleet.reader()
	err := t.store.do(ctx, func() error { return apply(&there) })
	t.term.Time = there.Time
	return err
}

// fleetTerm is a fleetStore within a term.
type fleetTerm struct {
	storage.Store
	store *fleetStore
	term  *storage.Term
}

func (s *fleetStore) countClaims(n int) {
	s.fleet.claims.Add(1)
	s.fleet.largest.Store(max(s.fleet.largest.Load(), int64(n)))
}

func (t fleetTerm) Claim(ctx context.Context, claims []storage.Claim, grants []limiter.Grant) error {
	t.store.countClaims(len(claims))
	return t.do(ctx, func(term *storage.Term) error {
		t.store.disk.note(claims)
		return t.store.raw.Within(term).Claim(ctx, claims, grants)
	})
}

func (t fleetTerm) Records(ctx context.Context, clients []storage.Client, now int64, records []reputation.Record) error {
	return t.do(ctx, func(term *storage.Term) error { return t.store.raw.Within(term).Records(ctx, clients, now, records) })
}

func (t fleetTerm) Punish(ctx context.Context, offenses []storage.Offense, records []reputation.Record) error {
	return t.do(ctx, func(term *storage.Term) error { return t.store.raw.Within(term).Punish(ctx, offenses, records) })
}

func (t fleetTerm) Sweep(ctx context.Context, now int64) (swept storage.Swept, err error) {
	err = t.do(ctx, func(term *storage.Term) error {
		swept, err = t.store.raw.Within(term).Sweep(ctx, now)
		return err
	})
	return swept, err
}

func (s *fleetStore) Within(term *storage.Term) storage.Store { return fleetTerm{s, s, term} }

func (s *fleetStore) ClaimFor(ctx context.Context, term *storage.Term, clients []storage.Client, records []reputation.Record, claims []storage.Claim, grants []limiter.Grant) error {
	s.countClaims(len(claims))
	return fleetTerm{s, s, term}.do(ctx, func(term *storage.Term) error {
		s.disk.note(claims)
		return s.raw.(storage.Joint).ClaimFor(ctx, term, clients, records, claims, grants)
	})
}

func (s *fleetStore) Reset(ctx context.Context, term *storage.Term, resets []storage.Reset) error {
	return fleetTerm{s, s, term}.do(ctx, func(term *storage.Term) error {
		return s.raw.(storage.Resetter).Reset(ctx, term, resets)
	})
}

func (s *fleetStore) Resets(ctx context.Context, after int64) (known storage.Resets, err error) {
	err = s.do(ctx, func() error {
		known, err = s.raw.(storage.Resetter).Resets(ctx, after)
		return err
	})
	return known, err
}

func (s *fleetStore) News(ctx context.Context, seen storage.Seen) (news storage.News, err error) {
	err = s.do(ctx, func() error {
		news, err = s.raw.(storage.Watcher).News(ctx, seen)
		return err
	})
	return news, err
}

func (s *fleetStore) Time(from storage.Clock, least int64) (now storage.Time, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	from.Read()
	err = s.do(ctx, func() error {
		now, err = s.raw.Time(s.fleet.reader(), least)
		return err
	})
	return now, err
}

func (s *fleetStore) Join(ctx context.Context, id, now, until int64) (p storage.Presence, err error) {
	err = s.do(ctx, func() error {
		s.fleet.mu.Lock()
		defer s.fleet.mu.Unlock()
		s.fleet.stays[id] = until
		p = storage.Presence{}
		for other, until := range s.fleet.stays {
			if until > now {
				p.Processes++
			}
			if until > now && other < id {
				p.Process++
			}
		}
		return nil
	})
	return p, err
}

func (s *fleetStore) Leave(ctx context.Context, id int64) error {
	return s.do(ctx, func() error {
		s.fleet.mu.Lock()
		defer s.fleet.mu.Unlock()
		delete(s.fleet.stays, id)
		return nil
	})
}

// Claim, Records, Punish and Sweep are calls without a term, which an engine doesn't make.
func (s *fleetStore) Claim(ctx context.Context, claims []storage.Claim, grants []limiter.Grant) error {
	return s.raw.Claim(ctx, claims, grants)
}

func (s *fleetStore) Records(ctx context.Context, clients []storage.Client, now int64, records []reputation.Record) error {
	return s.raw.Records(ctx, clients, now, records)
}

func (s *fleetStore) Punish(ctx context.Context, offenses []storage.Offense, records []reputation.Record) error {
	return s.raw.Punish(ctx, offenses, records)
}

func (s *fleetStore) Sweep(ctx context.Context, now int64) (storage.Swept, error) {
	return s.raw.Sweep(ctx, now)
}

func (s *fleetStore) Stats(ctx context.Context) (storage.Stats, error) { return s.raw.Stats(ctx) }

func (s *fleetStore) Continues(earlier storage.Store) bool {
	e, ok := earlier.(*fleetStore)
	return ok && e.disk == s.disk
}

func (s *fleetStore) Close() error { return s.raw.Close() }

func (s *fleetStore) MaxBatch() int { return s.fleet.most }

var (
	_ storage.Remote  = (*fleetStore)(nil)
	_ storage.Joint   = (*fleetStore)(nil)
	_ storage.Watcher = (*fleetStore)(nil)
	_ storage.Shared  = (*fleetStore)(nil)
)
