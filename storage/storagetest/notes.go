package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

func putNotes(t *testing.T, s storage.Network, replay bool, notes ...storage.Note) {
	t.Helper()
	if err := s.PutNotes(context.Background(), notes, replay); err != nil {
		t.Fatalf("put notes: %v", err)
	}
}

// notesAfter returns the notes that changed after a number, and the number of the last change.
func notesAfter(t *testing.T, s storage.Network, number int64) (notes []storage.Note, last int64) {
	t.Helper()
	for more := true; more; {
		got := news(t, s, storage.Seen{Changes: -1, Notes: number})
		if more = got.MoreNotes; more && len(got.Notes) != storage.MaxNotesTold ||
			len(got.Notes) > storage.MaxNotesTold {
			t.Fatalf("%d notes are told, and whether there are more is %v", len(got.Notes), more)
		}
		for _, n := range got.Notes {
			if n.Number <= number {
				t.Fatalf("after number %d comes %d", number, n.Number)
			}
			number, n.Number = n.Number, 0
			notes = append(notes, n)
		}
	}
	return notes, number
}

func mustHaveNotes(t *testing.T, s storage.Network, after int64, want ...storage.Note) (last int64) {
	t.Helper()
	got, last := notesAfter(t, s, after)
	for i := range got {
		if len(got[i].Value) == 0 {
			got[i].Value = nil
		}
	}
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Fatalf("the notes after %d are\n%+v, want\n%+v", after, got, want)
	}
	return last
}

// everyByte is a value with every byte.
func everyByte() (value []byte) {
	for b := range 256 {
		value = append(value, byte(b))
	}
	return value
}

// testNotes changes notes through two handles. Each reports every changed note once, in its present
// version.
func testNotes(t *testing.T, open storage.Opener) {
	s, other := network(t, open), network(t, open)
	seen := mustHaveNotes(t, s, 0)
	a := storage.Note{Name: key(1), Value: everyByte(), Until: start + 1, Version: 5}
	b := storage.Note{Name: key(2), Value: []byte("b"), Version: 1 << 52}
	putNotes(t, s, false, a, b)
	seen = mustHaveNotes(t, other, seen, a, b)
	mustHaveNotes(t, other, seen)
	mustHaveNotes(t, other, -1)

	a.Value = []byte("again")
	removed := storage.Note{Name: key(2), Until: start, Version: 1 << 52}
	put := []storage.Note{a, removed}
	if err := other.PutNotes(context.Background(), put, false); err != nil {
		t.Fatal(err)
	}
	a.Version, removed.Version = 6, 1<<52+1 // each change is a later one
	if put[0].Version != a.Version || put[1].Version != removed.Version {
		t.Errorf("the versions that were told are %d and %d", put[0].Version, put[1].Version)
	}
	mustHaveNotes(t, s, seen, a, removed)
	mustHaveNotes(t, s, 0, a, removed)

	twice := []storage.Note{{Name: key(3), Value: []byte("1"), Version: 1},
		{Name: key(3), Value: []byte("2"), Version: 1}}
	putNotes(t, s, false, twice...)
	mustHaveNotes(t, s, 0, a, removed, storage.Note{Name: key(3), Value: []byte("2"), Version: 2})
}

// testNotesReplayed puts notes that were known before a store lost its data, in another order and
// twice. The last version of each note wins.
func testNotesReplayed(t *testing.T, open storage.Opener) {
	s := network(t, open)
	kept := storage.Note{Name: key(1), Value: []byte("a"), Version: 7}
	removed := storage.Note{Name: key(2), Version: 9, Until: start}
	putNotes(t, s, true, kept, removed)
	seen := mustHaveNotes(t, s, 0, kept, removed)
	stale := []storage.Note{{Name: key(2), Value: []byte("was removed"), Version: 8}, kept,
		{Name: key(1), Value: []byte("older"), Version: 6}}
	if err := s.PutNotes(context.Background(), stale, true); err != nil {
		t.Fatal(err)
	}
	if stale[0].Version != 9 || stale[2].Version != 7 {
		t.Errorf("the versions that stay are %d and %d, want 9 and 7", stale[0].Version, stale[2].Version)
	}
	mustHaveNotes(t, s, seen)
	later := storage.Note{Name: key(1), Value: []byte("later"), Version: 8}
	putNotes(t, s, true, storage.Note{Name: key(2), Value: []byte("was removed"), Version: 8}, later)
	mustHaveNotes(t, s, seen, later)
	mustHaveNotes(t, s, 0, removed, later)
}

// FewNotes is the maximum number of notes of a test's store, in place of [storage.MaxNotes].
const FewNotes = 2 * storage.MaxNotesTold

// testNotesFull fills a store, which then still accepts changes to its notes.
func testNotesFull(t *testing.T, open storage.Opener) {
	s, room := network(t, open), FewNotes
	fillNotes(t, s, 0, room)
	beyond := []storage.Note{{Name: noteName(room), Version: 1}}
	if err := s.PutNotes(context.Background(), beyond, false); !errors.Is(err, storage.ErrNotesFull) {
		room = storage.MaxNotes
		fillNotes(t, s, FewNotes, room)
	}
	first := storage.Note{Name: noteName(0), Version: 2}
	putNotes(t, s, false, first)
	_, last := notesAfter(t, s, 0)
	more := []storage.Note{{Name: noteName(0), Value: []byte("y"), Version: 3},
		{Name: noteName(room), Value: []byte("x"), Version: 1}}
	if err := s.PutNotes(context.Background(), more, false); !errors.Is(err, storage.ErrNotesFull) {
		t.Errorf("a full store says %v", err)
	}
	mustHaveNotes(t, s, last)
}

// fillNotes puts the notes with the numbers from ≤ n < to.
func fillNotes(t *testing.T, s storage.Network, from, to int) {
	t.Helper()
	var notes []storage.Note
	for i := from; i < to; i++ {
		notes = append(notes, storage.Note{Name: noteName(i), Value: []byte("x"), Version: 1})
	}
	for some := range slices.Chunk(notes, 5000) {
		putNotes(t, s, false, some...)
	}
}

func noteName(n int) (name storage.Key) {
	copy(name[:], fmt.Sprintf("%016d", n))
	return name
}

// testNotesBad puts invalid notes, and valid ones into a closed store.
func testNotesBad(t *testing.T, open storage.Opener) {
	s := network(t, open)
	long := storage.Note{Name: key(1), Value: bytes.Repeat([]byte{255}, storage.MaxNote), Version: 1}
	putNotes(t, s, false, long)
	seen := mustHaveNotes(t, s, 0, long)
	for name, bad := range map[string]storage.Note{
		"too long":        {Value: make([]byte, storage.MaxNote+1), Version: 1},
		"without version": {Value: []byte("a")},
		"too late":        {Value: []byte("a"), Version: 1 << 53},
	} {
		bad.Name = key(3)
		if err := s.PutNotes(context.Background(), []storage.Note{{Name: key(2), Version: 1}, bad}, false); err == nil {
			t.Errorf("a note that is %s is kept", name)
		}
	}
	putNotes(t, s, false)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.PutNotes(ctx, []storage.Note{{Name: key(2), Version: 1}}, false); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context ended: %v", err)
	}
	mustHaveNotes(t, s, seen)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.PutNotes(context.Background(), []storage.Note{long}, false); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("a closed store says %v", err)
	}
}

// testNotesSwept sweeps notes that are over, and keeps the others.
func testNotesSwept(t *testing.T, open storage.Opener) {
	s, c := network(t, open), &processClock{wall: start, source: 1}
	termNow(t, s, c)
	hour := int64(storage.KeepNotes)
	forGood := storage.Note{Name: key(1), Value: []byte("for good"), Version: 1}
	soon := storage.Note{Name: key(2), Until: start + int64(time.Second), Version: 1}
	later := storage.Note{Name: key(3), Value: []byte("later"), Until: start + hour, Version: 1}
	again := storage.Note{Name: key(4), Value: []byte("ends"), Until: start, Version: 1}
	putNotes(t, s, false, forGood, soon, later, again)
	again.Until, again.Version = 0, 2
	putNotes(t, s, false, again)
	sweepAll(t, s, termNow(t, s, c))
	mustHaveNotes(t, s, 0, forGood, soon, later, again)
	c.advance(time.Duration(hour) + time.Minute)
	sweepAll(t, s, termNow(t, s, c))
	last := mustHaveNotes(t, s, 0, forGood, later, again)
	soon.Version = 2
	putNotes(t, s, false, soon)
	mustHaveNotes(t, s, last, soon)
}
