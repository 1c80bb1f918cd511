//go:build linux

package journal

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// small is the shape of most tests' journals: three segments of four records.
func small(path string) Options { return Options{Path: path, Origin: 7, Segments: 3, Records: 4} }

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "tally-journal") }

func mustOpen(t testing.TB, o Options) *Journal {
	t.Helper()
	j, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

func mustOwn(t testing.TB, j *Journal, after uint32) {
	t.Helper()
	if !j.Own(after, 0) {
		t.Fatalf("can't become the owner: %v, %v", j.Err(), j.InPlace())
	}
}

// isForeign reports whether the contents have another origin or are no journal, as in a new file.
func (j *Journal) isForeign() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.foreign
}

// numbered returns a record that differs from all others in each of its numbers.
func numbered(n int) Record {
	r := Record{Limit: int64(n), Bucket: n%2 == 1}
	for i := range r.Key {
		r.Key[i] = byte(n >> (i % 8) * 3)
	}
	for i := range r.N {
		r.N[i] = -int64(n)*1e12 + int64(i)
	}
	return r
}

func mustAdd(t testing.TB, j *Journal, records ...int) {
	t.Helper()
	for _, n := range records {
		if r := numbered(n); !j.Add(r) {
			t.Fatalf("record %d is refused: %v", n, j.Err())
		}
	}
}

func refuses(t testing.TB, j *Journal) {
	t.Helper()
	if r := numbered(1 << 20); j.Add(r) {
		t.Fatal("a record was added")
	}
}

// readOne sets r to the record at a place, and reports whether there is one.
func readOne(s *Segment, i int, r *Record) (ok bool, err error) {
	_, err = s.Read(i, i+1, func(_ int, there *Record) { *r, ok = *there, true })
	return ok, err
}

// found returns all records with a generation after the given one, in their order.
func found(t testing.TB, j *Journal, after uint32) (records []Record) {
	t.Helper()
	for _, s := range j.Segments(after) {
		for i := range s.Len() {
			var r Record
			if ok, err := readOne(s, i, &r); err != nil {
				t.Fatal(err)
			} else if ok {
				records = append(records, r)
			}
		}
	}
	return records
}

func holds(t testing.TB, j *Journal, after uint32, records ...int) {
	t.Helper()
	got := found(t, j, after)
	if len(got) != len(records) {
		t.Fatalf("it holds %d records: %v; expected %v", len(got), got, records)
	}
	for i, n := range records {
		if got[i] != numbered(n) {
			t.Errorf("record %d is %+v; expected %+v", i, got[i], numbered(n))
		}
	}
}

func TestRecordsAreFoundAgain(t *testing.T) {
	path := newPath(t)
	j := mustOpen(t, small(path))
	if !j.isForeign() || j.ID() != 0 || j.Newest() != 0 || j.Owned() {
		t.Errorf("a new file: foreign %v, id %d, newest %d, owned %v", j.isForeign(), j.ID(), j.Newest(), j.Owned())
	}
	refuses(t, j)
	mustOwn(t, j, 0)
	if j.isForeign() || j.ID() == 0 || !j.Owned() {
		t.Errorf("owned: foreign %v, id %d, owned %v", j.isForeign(), j.ID(), j.Owned())
	}
	mustAdd(t, j, 1, 2, 3, 4, 5)
	holds(t, j, 0, 1, 2, 3, 4, 5)
	id := j.ID()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}

	j = mustOpen(t, small(path))
	if j.isForeign() || j.ID() != id || j.Newest() != 2 {
		t.Errorf("opened again: foreign %v, id %d, newest %d; expected id %d, newest 2", j.isForeign(), j.ID(), j.Newest(), id)
	}
	holds(t, j, 0, 1, 2, 3, 4, 5)
	holds(t, j, 1, 5)
	mustOwn(t, j, 1)
	mustAdd(t, j, 6)
	holds(t, j, 1, 5, 6)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 || info.Size() != headerSize+3*4*recordSize {
		t.Errorf("the file is %v, %v", info, err)
	}
}

func TestFullJournalGoesOnAfterFree(t *testing.T) {
	j := mustOpen(t, small(newPath(t)))
	mustOwn(t, j, 41)
	mustAdd(t, j, 1, 2, 3, 4)
	select {
	case <-j.Full():
		t.Error("the first segment is said to be full before anything is added to the second")
	default:
	}
	mustAdd(t, j, 5, 6, 7, 8, 9, 10, 11, 12)
	<-j.Full()
	refuses(t, j)
	refuses(t, j)
	<-j.Full()
	segments := j.Segments(0)
	if len(segments) != 3 || segments[0].Generation() != 42 || !segments[0].Sealed() || segments[2].Generation() != 44 {
		t.Fatalf("%d segments, the first is %+v", len(segments), segments[0])
	}
	if err := j.Settle(segments[0]); err != nil {
		t.Fatal(err)
	}
	j.Free(42)
	mustAdd(t, j, 13, 14, 15, 16)
	refuses(t, j)
	holds(t, j, 42, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
	if ok, err := readOne(segments[0], 0, new(Record)); ok || err != nil {
		t.Errorf("a segment that was written over has a record: %v, %v", ok, err)
	}
	j.Free(1 << 30) // more than there are
	mustAdd(t, j, 17)
	holds(t, j, 45, 17)
	if newest := j.Newest(); newest != 46 {
		t.Errorf("the newest generation is %d; expected 46", newest)
	}
	mustAdd(t, j, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28)
	refuses(t, j) // those that came later were not freed
}

func TestSeal(t *testing.T) {
	j := mustOpen(t, small(newPath(t)))
	mustOwn(t, j, 0)
	j.Seal() // nothing there
	mustAdd(t, j, 1)
	writable := j.Segments(0)[0]
	if err := j.Settle(writable); err == nil {
		t.Error("a segment that is written to is settled")
	}
	j.Free(writable.Generation())
	j.Seal()
	mustAdd(t, j, 2)
	if !writable.Sealed() || writable.Len() != 1 || j.Settle(writable) != nil {
		t.Errorf("sealed: %v, %d records", writable.Sealed(), writable.Len())
	}
	holds(t, j, 0, 1, 2)
	j.Seal()
	mustAdd(t, j, 3)
	j.Seal() // none is free
	refuses(t, j)
	j.Free(1)
	mustAdd(t, j, 4)
	holds(t, j, 1, 2, 3, 4)
}

func TestWhoOpensRevokes(t *testing.T) {
	path := newPath(t)
	a := mustOpen(t, small(path))
	mustOwn(t, a, 0)
	mustOwn(t, a, 0) // is nothing new
	mustAdd(t, a, 1, 2)
	token := a.token.Load()

	b := mustOpen(t, small(path))
	if a.Owned() || b.Owned() || a.ID() != b.ID() {
		t.Errorf("owned: %v, %v", a.Owned(), b.Owned())
	}
	refuses(t, a)
	if a.Own(0, 0) || b.Own(0, 0) {
		t.Error("one of two became the owner")
	}
	if got := found(t, b, 0); len(got) < 2 || got[0] != numbered(1) || got[1] != numbered(2) {
		t.Errorf("the other finds %v", got)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if b.Own(0, 0) || b.Owned() || b.Add(Record{}) || b.Err() != errClosed {
		t.Error("a closed journal is in use")
	}
	refuses(t, a)
	mustOwn(t, a, 1)
	if a.token.Load() == token {
		t.Error("the token is the one of before")
	}
	mustAdd(t, a, 3)
	holds(t, a, 1, 3)
	a.Disown()
	if a.Owned() {
		t.Error("it is owned after Disown")
	}
	refuses(t, a)
	holds(t, a, 1, 3)
}

func TestOtherOrigin(t *testing.T) {
	path := newPath(t)
	a := mustOpen(t, small(path))
	mustOwn(t, a, 0)
	mustAdd(t, a, 1)
	id := a.ID()
	a.Close()

	other := small(path)
	other.Origin++
	b := mustOpen(t, other)
	if !b.isForeign() || b.ID() != 0 || b.Newest() != 0 || len(b.Segments(0)) != 0 {
		t.Errorf("another origin: foreign %v, id %d, newest %d", b.isForeign(), b.ID(), b.Newest())
	}
	b.Close() // has changed nothing
	a = mustOpen(t, small(path))
	holds(t, a, 0, 1)
	a.Close()

	b = mustOpen(t, other)
	mustOwn(t, b, 0)
	if b.isForeign() || b.ID() == id {
		t.Errorf("foreign %v, id %d", b.isForeign(), b.ID())
	}
	holds(t, b, 0)
	mustAdd(t, b, 2)
	holds(t, b, 0, 2)
}
