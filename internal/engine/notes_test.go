package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/storage"
)

// reader is a machine of a fleet that reads notes.
type reader struct {
	*machine

	mu    sync.Mutex
	notes map[storage.Key]storage.Note // guarded by mu: as reported
}

// startReader starts a machine that opens no store while it is dead.
func startReader(f *fleet, known ...storage.Note) *reader {
	r := &reader{notes: make(map[storage.Key]storage.Note)}
	gate := &machine{fleet: f}
	r.machine = f.start(0, func(o *Options) { o.Open, o.Noted, o.Notes = gate.open, r.noted, known })
	gate.Engine, r.machine = r.Engine, gate
	return r
}

func (r *reader) noted(notes []storage.Note, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if all {
		clear(r.notes)
	}
	for _, n := range notes {
		r.notes[n.Name] = n
	}
}

// mustHave fails the test unless the machine knows exactly these notes with a content.
func (r *reader) mustHave(t *testing.T, values ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var known []string
	for _, n := range r.notes {
		if len(n.Value) > 0 {
			known = append(known, string(n.Value))
		}
	}
	slices.Sort(known)
	if !slices.Equal(known, values) {
		t.Errorf("the notes are %q, want %q", known, values)
	}
}

func noteOf(name, value string) storage.Note {
	n := storage.Note{Value: []byte(value)}
	copy(n.Name[:], name)
	return n
}

func (r *reader) put(t *testing.T, notes ...storage.Note) {
	t.Helper()
	if err := r.PutNotes(t.Context(), notes); err != nil {
		t.Fatal(err)
	}
}

// hearNews waits until all machines know the notes of one.
func hearNews() { time.Sleep(time.Second); synctest.Wait() }

func withReaders(t *testing.T, n int, f func(t *testing.T, f *fleet, readers []*reader)) {
	bubble.Test(t, func(t *testing.T) {
		fleet := newFleet(t, 5*time.Millisecond)
		var all []*reader
		for range n {
			all = append(all, startReader(fleet))
		}
		defer func() {
			for _, r := range all {
				if err := r.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}
		}()
		f(t, fleet, all)
	})
}

// Notes of one machine are known to all within a second, and to itself at once. This needs no calls
// except those for news.
func TestNotesReachAllMachines(t *testing.T) {
	withReaders(t, 2, func(t *testing.T, f *fleet, all []*reader) {
		a, b := all[0], all[1]
		quiet := f.calls.Load()
		hearNews()
		quiet = f.calls.Load() - quiet
		a.put(t, noteOf("x", "x"), noteOf("y", "y"))
		a.mustHave(t, "x", "y")
		b.put(t, noteOf("z", "z"))
		calls := f.calls.Load()
		hearNews()
		if more := f.calls.Load() - calls; more > quiet+2 {
			t.Errorf("%d calls in a second in which there are notes to tell, %d before", more, quiet)
		}
		a.mustHave(t, "x", "y", "z")
		b.mustHave(t, "x", "y", "z")
		b.put(t, noteOf("x", ""), noteOf("y", "again"))
		a.put(t, noteOf("y", "and again"))
		hearNews()
		a.mustHave(t, "and again", "z")
		b.mustHave(t, "and again", "z")
	})
}

// A machine that starts knows all notes when it is ready, regardless of their number.
func TestNotesAreReadAtTheStart(t *testing.T) {
	withReaders(t, 1, func(t *testing.T, f *fleet, all []*reader) {
		var values []string
		for i := range 3*storage.MaxNotesTold + 1 {
			values = append(values, fmt.Sprintf("%06d", i))
			all[0].put(t, noteOf(values[i], values[i]))
		}
		late := startReader(f)
		late.mustHave(t, values...)
		if err := late.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// While the store can't be used, known notes stay known, and none can be put.
func TestNotesInAnOutage(t *testing.T) {
	withReaders(t, 2, func(t *testing.T, f *fleet, all []*reader) {
		all[0].put(t, noteOf("x", "x"))
		hearNews()
		down := func(context.Context, func() error) error { return errDisk }
		f.let(down)
		if d := all[0].ask(debit(sliding(t, 10, time.Minute), "k", 1)); !d.Degraded {
			t.Fatalf("%+v, want an outage", d)
		}
		if err := all[0].PutNotes(t.Context(), []storage.Note{noteOf("y", "y")}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("in an outage: %v, want %v", err, ErrUnavailable)
		}
		hearNews()
		f.let(f.travel)
		hearNews()
		for _, r := range all {
			r.mustHave(t, "x")
		}
		all[1].put(t, noteOf("y", "y"))
		hearNews()
		all[0].mustHave(t, "x", "y")
	})
}

// Machines write their known notes to a store that has lost its data. Removed notes stay removed,
// even if another machine learns of the removal later.
func TestNotesOfALostStore(t *testing.T) {
	withReaders(t, 2, func(t *testing.T, f *fleet, all []*reader) {
		a, late := all[0], all[1]
		a.put(t, noteOf("x", "x"), noteOf("y", "y"))
		late.put(t, noteOf("z", "z"))
		hearNews()
		late.dead.Store(true)
		f.disk.Store(newFleetDisk())
		hearNews()
		hearNews()
		a.put(t, noteOf("x", ""), noteOf("y", "changed"))
		hearNews()
		late.mustHave(t, "x", "y", "z") // it can't reach the store
		late.dead.Store(false)
		hearNews()
		hearNews()
		for _, r := range all {
			r.mustHave(t, "changed", "z")
		}
		started := startReader(f)
		started.mustHave(t, "changed", "z")
		if err := started.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Notes known from another engine hold from the start, and are written to a store that has lost
// them.
func TestNotesThatAreKnownBefore(t *testing.T) {
	withReaders(t, 1, func(t *testing.T, f *fleet, all []*reader) {
		known := noteOf("x", "x")
		known.Version = 1
		over := known
		over.Name, over.Until = storage.Key{1}, 1
		next := startReader(f, known, over)
		next.mustHave(t, "x")
		hearNews()
		all[0].mustHave(t, "x")
		if err := next.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A machine without news for a long time reads all notes: the store may no longer know that some of
// them were removed.
func TestNotesAfterALongOutage(t *testing.T) {
	withReaders(t, 2, func(t *testing.T, f *fleet, all []*reader) {
		a, late := all[0], all[1]
		a.put(t, noteOf("x", "x"), noteOf("y", "y"))
		hearNews()
		late.dead.Store(true)
		late.committer.degrade(errDisk)
		late.committer.conn.onNetwork.Store(false) // it tries less often
		removed := noteOf("x", "")
		removed.Until = a.Now() + int64(time.Hour)
		a.put(t, removed)
		time.Sleep(2*storage.KeepNotes + time.Hour/2) // until the store forgets it
		if err := a.Close(t.Context()); err != nil {  // or it would ask for news for a day
			t.Fatal(err)
		}
		time.Sleep(readAllAfter)
		raw := f.disk.Load().raw()
		defer raw.Close()
		if len(mustTell(t, raw)) != 1 {
			t.Fatal("the store still knows what was removed")
		}
		late.dead.Store(false)
		for range 60 {
			hearNews()
		}
		late.mustHave(t, "y")
	})
}

func mustTell(t *testing.T, s storage.Network) []storage.Note {
	t.Helper()
	news, err := s.News(t.Context(), storage.Seen{Changes: -1})
	if err != nil {
		t.Fatal(err)
	}
	return news.Notes
}

// A machine that writes its notes to a slow store stops when it ends.
func TestNotesAreToldNoMoreAfterTheEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, 500*time.Millisecond)
		var known []storage.Note
		for i := range 200 * replayedNotes {
			n := noteOf(fmt.Sprintf("%06d", i), "x")
			n.Version = 1
			known = append(known, n)
		}
		r := startReader(f, known...)
		hearNews()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}
