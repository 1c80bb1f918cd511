//go:build linux

package journal

import (
	"bytes"
	"os"
	"testing"
)

// recordsIn returns how many places of a journal's file hold something.
func recordsIn(t *testing.T, path string) (n int) {
	t.Helper()
	contents, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := headerSize; at < len(contents); at += recordSize {
		if !bytes.Equal(contents[at:at+recordSize], make([]byte, recordSize)) {
			n++
		}
	}
	return n
}

func TestErasedRecordsAreNotInTheFile(t *testing.T) {
	path := newPath(t)
	j := mustOpen(t, small(path))
	mustOwn(t, j, 0)
	mustAdd(t, j, 0, 1, 2, 3, 4, 5)
	first := j.Segments(0)[0]
	if err := j.Erase(first); err != nil {
		t.Fatal(err)
	}
	var r Record
	if ok, err := readOne(first, 0, &r); ok || err != nil {
		t.Errorf("an erased record is read: %v, %v", ok, err)
	}
	if n := recordsIn(t, path); n != 2 {
		t.Errorf("%d records are in the file, want 2", n)
	}
	if j.Erase(j.Segments(0)[1]) == nil {
		t.Error("a segment that is being written is erased")
	}
	j.Free(1)
	mustAdd(t, j, 6, 7, 8, 9, 10)
	if err := j.Erase(first); err != nil { // late: its place is used again
		t.Fatal(err)
	}
	if n := recordsIn(t, path); n != 7 {
		t.Errorf("%d records are in the file, want 7", n)
	}
}

// A process that dies after it has folded a segment leaves it to the next owner.
func TestOwnErasesWhatADeadProcessHasFolded(t *testing.T) {
	path, _ := written(t)
	if n := recordsIn(t, path); n != 6 {
		t.Fatalf("%d records are in the file, want 6", n)
	}
	mustOwn(t, mustOpen(t, small(path)), 1)
	if n := recordsIn(t, path); n != 2 {
		t.Errorf("%d records are in the file, want the 2 that are pending", n)
	}
}

// What a revoked Journal has written, the next one erases once it has dealt with it. That is no
// damage to who still reads it.
func TestRecordsThatOthersErasedBreakNoJournal(t *testing.T) {
	path := newPath(t)
	revoked := mustOpen(t, small(path))
	mustOwn(t, revoked, 0)
	mustAdd(t, revoked, 0, 1)
	revoked.Seal()
	written := revoked.Segments(0)[0]
	next := mustOpen(t, small(path))
	if err := next.Erase(next.Segments(0)[0]); err != nil {
		t.Fatal(err)
	}
	var r Record
	if ok, err := readOne(written, 0, &r); ok || err != nil || revoked.Err() != nil {
		t.Errorf("got %v, %v, and the journal says %v", ok, err, revoked.Err())
	}
	if _, err := written.ReadPending(1, 2, func(int, *Record) { t.Error("an erased record is read") }); err == nil {
		t.Error("a record that nobody has erased is missing, without an error")
	}
}
