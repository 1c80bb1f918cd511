package engine

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/network"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

// disk is the part that survives engines: a database that stores share, and the names in claims.
type disk struct {
	db    atomic.Pointer[network.Database]
	asked atomic.Int64 // batches, by all stores

	mu    sync.Mutex
	names map[diskKey]struct{} // guarded by mu
}

type diskKey struct {
	id  storage.LimitID
	key storage.Key
}

func newDisk() *disk {
	d := new(disk)
	d.lose()
	return d
}

// lose forgets everything.
func (d *disk) lose() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.db.Store(network.New())
	d.names = make(map[diskKey]struct{})
}

// raw returns a store on the disk that has no hooks.
func (d *disk) raw() storage.Network { return mustOpen(d.db.Load().Open).(storage.Network) }

func mustOpen(open storage.Opener) storage.Store {
	store, err := open(context.Background())
	if err != nil {
		panic(err) // it can't: the context continues
	}
	return store
}

// claim claims units like another process, whose store never fails.
func (d *disk) claim(l *Limit, key string, c limiter.Claim) limiter.Grant {
	grants := make([]limiter.Grant, 1)
	claims := []storage.Claim{{ID: l.ID, Key: testName(l.ID, key), Limit: l.Rate, Claim: c}}
	d.call(c.Now, func(raw storage.Store, term *storage.Term) error {
		return raw.Claim(context.Background(), term, claims, grants)
	})
	d.note(claims)
	return grants[0]
}

// note remembers the names of claims, so that stateOf finds them.
func (d *disk) note(claims []storage.Claim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range claims {
		d.names[diskKey{c.ID, c.Key}] = struct{}{}
	}
}

// stateOf returns the state of a key on the disk, under all of its names.
func (d *disk) stateOf(l *Limit, key string, now int64) (all limiter.State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k := range d.names {
		if k.id == l.ID && keyOf(k.key) == key {
			all.Merge(&l.Rate, d.db.Load().Counts.State(k.id, k.key), now)
		}
	}
	return all
}

// keyOf returns the key in a name, which may have an epoch.
func keyOf(name storage.Key) string {
	key, _, _ := bytes.Cut(name[:], []byte{' '})
	return string(bytes.TrimRight(key, "\x00"))
}

// used returns the units of a key in use on the disk.
func (d *disk) used(l *Limit, key string, now int64) int64 {
	state := d.stateOf(l, key, now)
	g := l.Claim(&state, limiter.Claim{Now: now})
	return g.InUse()
}

// record returns the record of a client on the disk at now.
func (d *disk) record(client string, now int64) reputation.Record {
	records := make([]reputation.Record, 1)
	clients := []storage.Client{{Key: testName(clientsID, client)}}
	if d.db.Load().Counts.Time().Now == 0 {
		return records[0] // no engine has begun, and looking must not set the time
	}
	d.call(now, func(raw storage.Store, term *storage.Term) error {
		return raw.Records(context.Background(), term, clients, records)
	})
	return records[0]
}

// spoil takes all points from a client at a time.
func (d *disk) spoil(client string, now int64) {
	offense := reputation.Offense{Violation: reputation.Violation{At: now, Reason: reputation.Trapped}, Points: 100}
	offenses := []storage.Offense{{Client: storage.Client{Key: testName(clientsID, client)}, Offense: offense}}
	d.call(now, func(raw storage.Store, term *storage.Term) error {
		return raw.Punish(context.Background(), term, offenses, make([]reputation.Record, 1))
	})
}

// call makes a call of another process at a time. An engine may set the time meanwhile: then it is repeated.
func (d *disk) call(now int64, call func(storage.Store, *storage.Term) error) {
	raw := d.raw()
	defer raw.Close()
	err := storage.ErrTerm
	for errors.Is(err, storage.ErrTerm) {
		err = call(raw, d.termAt(now))
	}
	if err != nil {
		panic(err)
	}
}

// termAt returns the term of a call by another process, at a time that the disk's clock has not passed, or
// else as of the latest call.
func (d *disk) termAt(now int64) *storage.Term {
	r := d.db.Load().Counts.Time()
	passed := max(now-r.Now, 0)
	at := storage.Reading{Wall: r.Now + r.Apart + passed, Steady: r.Steady + passed, Source: r.Source, Shared: true}
	if r.Now == 0 {
		at.Source = storage.Source{1}
	}
	return &storage.Term{Clock: reading(at), Shift: r.Shift, Era: r.Era, Resets: r.Resets}
}

// reading is a clock that stands still.
type reading storage.Reading

func (r reading) Read() storage.Reading { return storage.Reading(r) }

// time returns the time of the disk at an elapsed time.
func (d *disk) time(elapsed int64) storage.Time {
	record := d.db.Load().Counts.Time()
	return record.After(elapsed - record.Steady)
}

// hookedStore is a store on a disk. Its hooks run before and after a batch of claims is
// applied: they may wait, count, and fail.
type hookedStore struct {
	*disk
	before func(claims []storage.Claim) error
	after  func() error
	calls  atomic.Int64
	claims atomic.Int64
	closed atomic.Bool

	tracer  *tracer // nil if nothing is traced
	machine int     // in the trace

	opened atomic.Pointer[storage.Local] // the store behind the hooks, after its first use
}

// store returns the store behind the hooks.
func (s *hookedStore) store() storage.Local {
	if s.opened.Load() == nil {
		s.reopen()
	}
	return *s.opened.Load()
}

// reopen replaces the store behind the hooks by a new one.
func (s *hookedStore) reopen() {
	local := mustOpen(s.db.Load().Counts.Opener(memory.Options{})).(storage.Local)
	s.opened.Store(&local)
}

func (s *hookedStore) Claim(ctx context.Context, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	s.calls.Add(1)
	s.asked.Add(1)
	s.claims.Add(int64(len(claims)))
	if s.closed.Load() {
		return storage.ErrClosed
	}
	if s.before != nil {
		if err := s.before(claims); err != nil {
			return err
		}
	}
	s.note(claims)
	if err := s.store().Claim(ctx, term, claims, grants); err != nil {
		return err
	}
	s.tracer.claimed(s.machine, s.db.Load(), term.Time, claims, grants)
	if s.after != nil {
		return s.after()
	}
	return nil
}

func (s *hookedStore) Records(ctx context.Context, term *storage.Term, clients []storage.Client, records []reputation.Record) error {
	return s.store().Records(ctx, term, clients, records)
}

func (s *hookedStore) Punish(ctx context.Context, term *storage.Term, offenses []storage.Offense, records []reputation.Record) error {
	return s.store().Punish(ctx, term, offenses, records)
}

func (s *hookedStore) Sweep(ctx context.Context, term *storage.Term) (storage.Swept, error) {
	return s.store().Sweep(ctx, term)
}

func (s *hookedStore) Stats(ctx context.Context) (storage.Stats, error) { return s.store().Stats(ctx) }

func (s *hookedStore) Time(from storage.Clock, least int64) (storage.Time, error) {
	return s.store().Time(from, least)
}

func (s *hookedStore) Probe(ctx context.Context, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	return s.store().Probe(ctx, term, claims, grants)
}

func (s *hookedStore) Banned(ctx context.Context, now int64, most int) (map[storage.Key]reputation.Record, error) {
	return s.store().Banned(ctx, now, most)
}

func (s *hookedStore) Reset(ctx context.Context, term *storage.Term, resets []storage.Reset) error {
	return s.store().Reset(ctx, term, resets)
}

func (s *hookedStore) Resets(ctx context.Context, after int64) (storage.Resets, error) {
	return s.store().Resets(ctx, after)
}

func (s *hookedStore) Join(ctx context.Context, id, now, until int64) (storage.Presence, error) {
	return s.store().Join(ctx, id, now, until)
}

func (s *hookedStore) Leave(ctx context.Context, id int64) error { return s.store().Leave(ctx, id) }

func (s *hookedStore) Audit(ctx context.Context, log storage.Log, act *storage.Act) error {
	return s.store().Audit(ctx, log, act)
}

func (s *hookedStore) Acts(ctx context.Context, log storage.Log, before int64, n int) ([]storage.Act, error) {
	return s.store().Acts(ctx, log, before, n)
}

func (s *hookedStore) Continues(earlier storage.Store) bool {
	e, ok := earlier.(*hookedStore)
	return ok && e.disk == s.disk
}

func (s *hookedStore) Close() error {
	s.closed.Store(true)
	return s.store().Close()
}

// immediateStore is a hooked store that claims at once. It checks that the engine's known usage of a
// key is complete.
type immediateStore struct {
	*hookedStore
	t      testing.TB
	atOnce func() error // fails before anything is charged, or with an unknown outcome afterwards
	number atomic.Int64 // claims at once that were granted
	onDisk bool         // the committer claims at once
}

func (s *immediateStore) Period() uint32 {
	if s.closed.Load() {
		return 0
	}
	return s.store().Period()
}

func (s *immediateStore) IsNew(id storage.LimitID, era int64, key storage.Key) bool {
	return s.store().IsNew(id, era, key)
}

func (s *immediateStore) Mark(ctx context.Context, now int64, marks ...int64) (former, kept int64, err error) {
	return s.store().Mark(ctx, now, marks...)
}

func (s *immediateStore) Continues(earlier storage.Store) bool {
	e, ok := earlier.(*immediateStore)
	return ok && e.disk == s.disk
}

func (s *immediateStore) OnDisk() bool { return s.onDisk }

func (s *immediateStore) ClaimAtOnce(period uint32, era int64, claims []storage.KnownClaim) error {
	failed := s.atOnce()
	if s.closed.Load() || failed != nil && !errors.Is(failed, storage.ErrUnknownOutcome) {
		return storage.ErrNotAtOnce
	}
	for i := range claims {
		if err := s.claimOneAtOnce(period, era, &claims[i]); err != nil {
			return err
		}
		claims[i].Done = claims[i].Done && failed == nil
	}
	return failed
}

func (s *immediateStore) claimOneAtOnce(period uint32, era int64, c *storage.KnownClaim) error {
	state, one := s.db.Load().Counts.State(c.ID, c.Key), []storage.KnownClaim{*c}
	if err := s.store().ClaimAtOnce(period, era, one); err != nil {
		return err
	}
	if *c = one[0]; !c.Done {
		return nil
	}
	s.note([]storage.Claim{c.Claim})
	s.tracer.claimed(s.machine, s.db.Load(), storage.Time{Now: c.Now, Era: era}, []storage.Claim{c.Claim}, []limiter.Grant{c.Grant})
	s.number.Add(1)
	if truly := c.Limit.Claim(&state, c.Claim.Claim); truly.Units < c.Grant.Units || truly.InUse() > c.Grant.InUse()+truly.Units-c.Grant.Units {
		s.t.Errorf("%+v was granted %+v at once, knowing %+v; the store grants %+v", c.Claim, c.Grant, c.Known, truly)
	}
	return nil
}
