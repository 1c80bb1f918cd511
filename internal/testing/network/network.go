// Package network has a store for tests that several machines use: a [storage.Network] in memory,
// without a network in between.
package network

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

// Database holds the data of stores.
type Database struct {
	Counts *memory.Database

	mu      sync.Mutex
	changed []storage.Client      // guarded by mu, like all below: clients whose records changed, in order
	notes   []storage.Note        // in the order of their numbers
	numbers map[storage.Key]int64 // of the notes, by name
	newest  int64                 // the number of the last change of a note
	values  map[string][]byte     // by name
	stays   map[int64]int64       // until when each process is present
}

// New returns an empty database.
func New() *Database {
	return &Database{Counts: memory.New(), numbers: make(map[storage.Key]int64), values: make(map[string][]byte), stays: make(map[int64]int64)}
}

// Clone returns a copy of the counts, records, resets and notes.
func (db *Database) Clone() *Database {
	db.mu.Lock()
	defer db.mu.Unlock()
	c := New()
	c.Counts, c.changed = db.Counts.Clone(), slices.Clone(db.changed)
	c.notes, c.numbers, c.newest = slices.Clone(db.notes), maps.Clone(db.numbers), db.newest
	return c
}

// Open opens a store on the database.
func (db *Database) Open(ctx context.Context) (storage.Store, error) {
	counts, err := db.Counts.Opener(memory.Options{})(ctx)
	if err != nil {
		return nil, err
	}
	return &Store{counts, counts.(storage.Historian), db}, nil
}

// Store is a store on a [Database].
type Store struct {
	storage.Store // the counts
	storage.Historian
	db *Database
}

// lock locks the database, unless the store is closed or the context is done.
func (s *Store) lock(ctx context.Context) error {
	s.db.mu.Lock()
	_, err := s.Stats(ctx)
	if err != nil {
		s.db.mu.Unlock()
	}
	return err
}

func (s *Store) Punish(ctx context.Context, term *storage.Term, offenses []storage.Offense, records []reputation.Record) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if err := s.Store.Punish(ctx, term, offenses, records); err != nil {
		return err
	}
	for _, o := range offenses {
		s.db.changed = append(s.db.changed, o.Client)
	}
	return nil
}

func (s *Store) Sweep(ctx context.Context, term *storage.Term) (storage.Swept, error) {
	swept, err := s.Store.Sweep(ctx, term)
	if err == nil {
		s.sweepNotes(term.Time.Now)
	}
	return swept, err
}

func (s *Store) sweepNotes(now int64) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.db.notes = slices.DeleteFunc(s.db.notes, func(n storage.Note) bool {
		over := n.IsOver(now - int64(storage.KeepNotes))
		if over {
			delete(s.db.numbers, n.Name)
		}
		return over
	})
}

func (s *Store) ClaimFor(ctx context.Context, term *storage.Term, clients []storage.Client, records []reputation.Record, claims []storage.Claim, grants []limiter.Grant) error {
	if err := storage.CheckClaims(claims, grants); err != nil {
		return err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if err := s.Store.Records(ctx, term, clients, records); err != nil {
		return err
	}
	return s.Store.Claim(ctx, term, claims, grants)
}

func (s *Store) News(ctx context.Context, seen storage.Seen) (news storage.News, err error) {
	if err := s.lock(ctx); err != nil {
		return news, err
	}
	defer s.db.mu.Unlock()
	news.Newest, news.Processes = int64(len(s.db.changed)), len(s.db.stays)
	switch first := max(seen.Changes, news.Newest-storage.MaxChanges); {
	case seen.Changes < 0 || seen.Changes > news.Newest:
		news.Missed = true
	default:
		news.Changed, news.Missed = slices.Clone(s.db.changed[first:]), first > seen.Changes
	}
	if seen.Notes >= 0 {
		rest := s.db.notes[s.db.findLocked(seen.Notes+1):]
		news.Notes, news.MoreNotes = slices.Clone(rest[:min(len(rest), storage.MaxNotesTold)]), len(rest) > storage.MaxNotesTold
	}
	news.Resets, err = s.Resets(ctx, seen.Resets)
	return news, err
}

func (s *Store) PutNotes(ctx context.Context, notes []storage.Note, replay bool) error {
	if err := storage.CheckNotes(notes); err != nil {
		return err
	}
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.db.mu.Unlock()
	added := make(map[storage.Key]bool)
	for _, n := range notes {
		if s.db.numbers[n.Name] == 0 {
			added[n.Name] = true
		}
	}
	if len(s.db.notes)+len(added) > storage.MaxNotes {
		return storage.ErrNotesFull
	}
	for i := range notes {
		s.db.putLocked(&notes[i], replay)
	}
	return nil
}

func (db *Database) putLocked(note *storage.Note, replay bool) {
	number, last := db.numbers[note.Name], int64(0)
	i := db.findLocked(number)
	if number != 0 {
		last = db.notes[i].Version
	}
	if !replay {
		note.Version = max(note.Version, last+1)
	}
	if note.Version <= last {
		note.Version = last
		return
	}
	if number != 0 {
		db.notes = slices.Delete(db.notes, i, i+1)
	}
	db.newest = max(db.newest+1, time.Now().UnixMicro()) // so that a reader of lost notes hears of later ones
	db.numbers[note.Name] = db.newest
	kept := *note
	kept.Number, kept.Value = db.newest, bytes.Clone(note.Value)
	db.notes = append(db.notes, kept)
}

// findLocked returns the index of the first note whose number is at least number.
func (db *Database) findLocked(number int64) int {
	i, _ := slices.BinarySearchFunc(db.notes, number, func(n storage.Note, number int64) int { return cmp.Compare(n.Number, number) })
	return i
}

func (s *Store) Values(ctx context.Context) (map[string][]byte, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.db.mu.Unlock()
	return maps.Clone(s.db.values), nil
}

func (s *Store) SwapValue(ctx context.Context, name string, former, value []byte) ([]byte, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.db.mu.Unlock()
	if bytes.Equal(s.db.values[name], former) {
		s.db.values[name] = value
	}
	if len(s.db.values[name]) == 0 {
		delete(s.db.values, name)
	}
	return s.db.values[name], nil
}

func (s *Store) Join(ctx context.Context, id, now, until int64) (p storage.Presence, err error) {
	if err := s.lock(ctx); err != nil {
		return p, err
	}
	defer s.db.mu.Unlock()
	s.db.stays[id] = until
	maps.DeleteFunc(s.db.stays, func(_, until int64) bool { return until <= now })
	p.Processes = len(s.db.stays)
	for other := range s.db.stays {
		if other < id {
			p.Process++
		}
	}
	return p, nil
}

func (s *Store) Leave(ctx context.Context, id int64) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.db.mu.Unlock()
	delete(s.db.stays, id)
	return nil
}

func (s *Store) MaxBatch() int { return 128 }

func (s *Store) Continues(earlier storage.Store) bool {
	e, ok := earlier.(*Store)
	return ok && e.db == s.db
}

func (s *Store) Lacks(earlier storage.Store) bool { return !s.Continues(earlier) }

var _ storage.Network = (*Store)(nil)
