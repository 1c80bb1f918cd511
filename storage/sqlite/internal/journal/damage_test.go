//go:build linux

package journal

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"testing"
)

// written returns a journal's path and contents: generation 1 with four records, 2 with two.
func written(t testing.TB) (path string, contents []byte) {
	t.Helper()
	path = newPath(t)
	j := mustOpen(t, small(path))
	mustOwn(t, j, 0)
	mustAdd(t, j, 0, 1, 2, 3, 4, 5)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	contents, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, contents
}

// foundIn returns the numbers of the records that a journal with these contents holds. It fails
// if there is one that was never added, or one that isn't in its place.
func foundIn(t testing.TB, path string, contents []byte) (numbers []int) {
	t.Helper()
	if err := os.WriteFile(path, contents, 0o600); err != nil {
		t.Fatal(err)
	}
	j := mustOpen(t, small(path))
	defer j.Close()
	for _, s := range j.Segments(0) {
		for i := range s.Len() {
			var r Record
			if ok, err := readOne(s, i, &r); err != nil {
				t.Fatal(err)
			} else if !ok {
				continue
			}
			n := int(r.Limit)
			if r != numbered(n) || n != 4*int(s.Generation()-1)+i {
				t.Errorf("generation %d has at place %d %+v, which was not added there", s.Generation(), i, r)
			}
			numbers = append(numbers, n)
		}
	}
	return numbers
}

func at(record int) int { return headerSize + record*recordSize }

// Whatever is changed in a record, it is a hole then, and the others are found.
func TestChangedRecordsAreHoles(t *testing.T) {
	t.Parallel()
	path, contents := written(t)
	for offset := at(1); offset < at(2); offset++ {
		for bit := range 8 {
			changed := bytes.Clone(contents)
			changed[offset] ^= 1 << bit
			if got := foundIn(t, path, changed); len(got) != 5 || got[1] != 2 {
				t.Fatalf("with bit %d of byte %d changed the records are %v", bit, offset, got)
			}
		}
	}
}

// Torn records are those of which some words are there and others are not.
func TestTornRecordsAreHoles(t *testing.T) {
	path, contents := written(t)
	for missing := 1; missing < 1<<8; missing++ {
		torn := bytes.Clone(contents)
		for word := range 8 {
			if missing>>word&1 != 0 {
				clear(torn[at(1)+8*word:][:8])
			}
		}
		if got := foundIn(t, path, torn); len(got) != 5 || got[1] != 2 {
			t.Fatalf("without the words %08b the records are %v", missing, got)
		}
	}
}

func TestRecordsInOtherPlacesAreHoles(t *testing.T) {
	path, contents := written(t)
	moved := bytes.Clone(contents)
	copy(moved[at(0):], contents[at(1):at(2)])
	copy(moved[at(1):], contents[at(0):at(1)])
	copy(moved[at(6):], contents[at(2):at(3)])
	if got := foundIn(t, path, moved); len(got) != 4 || got[0] != 2 {
		t.Errorf("with two records swapped and one copied the records are %v", got)
	}
	copy(moved[at(0):at(4)], contents[at(4):at(8)]) // a segment in the place of another
	if got := foundIn(t, path, moved); len(got) != 2 || got[0] != 4 {
		t.Errorf("with one segment copied over the other the records are %v", got)
	}
}

// The same records of two files with the same origin: those of one don't count in the other.
func TestRecordsOfAnotherFileAreHoles(t *testing.T) {
	path, contents := written(t)
	_, other := written(t)
	mixed := append(bytes.Clone(contents[:headerSize]), other[headerSize:]...)
	if got := foundIn(t, path, mixed); len(got) != 0 {
		t.Errorf("records of another file: %v", got)
	}
	copy(mixed[8*tableAt:], other[8*tableAt:headerSize])
	if got := foundIn(t, path, mixed); len(got) != 0 {
		t.Errorf("records and table of another file: %v", got)
	}
}

// A generation counts in its file and its slot only.
func TestTableOfAnotherFile(t *testing.T) {
	path, contents := written(t)
	_, other := written(t)
	const begin, end = 8 * tableAt, 8 * (tableAt + 3)
	mixed := bytes.Clone(contents)
	copy(mixed[begin:end], other[begin:end])
	if err := os.WriteFile(path, mixed, 0o600); err != nil {
		t.Fatal(err)
	}
	if newest := mustOpen(t, small(path)).Newest(); newest != 0 {
		t.Errorf("the newest generation is %d, another file's", newest)
	}
	copy(mixed[begin+8:end], contents[begin:end-8])
	if err := os.WriteFile(path, mixed, 0o600); err != nil {
		t.Fatal(err)
	}
	if newest := mustOpen(t, small(path)).Newest(); newest != 0 {
		t.Errorf("the newest generation is %d, another segment's", newest)
	}
}

// The table's entries have checksums: noise in one is no generation.
func TestChangedTable(t *testing.T) {
	path, contents := written(t)
	for offset := 8 * tableAt; offset < 8*(tableAt+3); offset++ {
		for bit := range 8 {
			changed := bytes.Clone(contents)
			changed[offset] ^= 1 << bit
			lost := map[int]int{0: 4, 1: 2, 2: 0}[(offset-8*tableAt)/8]
			if got := foundIn(t, path, changed); len(got) != 6-lost {
				t.Fatalf("with bit %d of byte %d changed the records are %v", bit, offset, got)
			}
		}
	}
}

// With any change of the header the contents are no journal, and are made anew; nothing of
// what was there before is found then.
func TestChangedHeader(t *testing.T) {
	path, contents := written(t)
	for offset := range 8 * headWords {
		changed := bytes.Clone(contents)
		changed[offset] ^= 0x10
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		j := mustOpen(t, small(path))
		if !j.isForeign() || len(j.Segments(0)) != 0 || j.Newest() != 0 {
			t.Fatalf("with byte %d changed it is still a journal", offset)
		}
		mustOwn(t, j, 0)
		mustAdd(t, j, 9)
		holds(t, j, 0, 9)
		j.Close()
		j = mustOpen(t, small(path))
		holds(t, j, 0, 9)
		j.Close()
	}
}

// A process that dies while it makes a file leaves one like these.
func TestUnfinishedFiles(t *testing.T) {
	_, contents := written(t)
	full := len(contents)
	noise := make([]byte, full)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise)
	for name, unfinished := range map[string][]byte{
		"empty": {}, "short": make([]byte, 100), "zeros": make([]byte, full), "noise": noise,
		"records without a header": append(make([]byte, headerSize), contents[headerSize:]...),
	} {
		path := newPath(t)
		if err := os.WriteFile(path, unfinished, 0o600); err != nil {
			t.Fatal(err)
		}
		j := mustOpen(t, small(path))
		if !j.isForeign() || len(j.Segments(0)) != 0 {
			t.Errorf("%s: it is a journal", name)
		}
		mustOwn(t, j, 3)
		mustAdd(t, j, 1)
		holds(t, j, 0, 1)
		if s := j.Segments(0); s[0].Generation() != 4 {
			t.Errorf("%s: the first generation is %d; expected 4", name, s[0].Generation())
		}
	}
}

// What is left of a truncated file counts.
func TestTruncatedFile(t *testing.T) {
	t.Parallel()
	path, contents := written(t)
	for size := 0; size < len(contents); size += 8 {
		want := min(max(0, size-headerSize)/recordSize, 6)
		if got := foundIn(t, path, contents[:size]); len(got) != want {
			t.Fatalf("truncated to %d bytes: the records are %v; expected %d", size, got, want)
		}
	}
}

// A file keeps its shape whatever the options say, and a header that claims an impossible one
// is none.
func TestShapeIsTheFiles(t *testing.T) {
	path, _ := written(t)
	other := small(path)
	other.Segments, other.Records = 5, 100
	j := mustOpen(t, other)
	holds(t, j, 0, 0, 1, 2, 3, 4, 5)
	if j.InPlace() != nil {
		t.Error(j.InPlace())
	}
	for _, h := range []header{
		{segments: 0, records: 4, id: 1}, {segments: maxSegments + 1, records: 4, id: 1}, {segments: 3, records: 0, id: 1},
		{segments: 3, records: 4}, {segments: 1, records: maxSize / recordSize, id: 1}, {segments: 256, records: 1 << 31, id: 1},
	} {
		if got, ok := parseHeader(h.words()); ok {
			t.Errorf("%+v is a header: %+v", h, got)
		}
	}
}

// FuzzSegment changes bytes of a file: pairs of an offset and a byte. No record may be found that
// was not added.
func FuzzSegment(f *testing.F) {
	path, contents := written(f)
	le := binary.LittleEndian
	f.Add([]byte{})
	f.Add(le.AppendUint32(nil, uint32(at(2)<<8|0xff)))
	f.Add(append(le.AppendUint32(nil, 8*tableAt<<8), le.AppendUint32(nil, 8<<8|1)...))
	f.Fuzz(func(t *testing.T, changes []byte) {
		changed := bytes.Clone(contents)
		for ; len(changes) >= 4; changes = changes[4:] {
			change := le.Uint32(changes)
			if offset := int(change >> 8); offset < len(changed) {
				changed[offset] = byte(change)
			} else if n := offset % len(changed); n > headerSize { // move a record
				copy(changed[n/recordSize*recordSize:], changed[at(int(change)%12):][:recordSize])
			}
		}
		foundIn(t, path, changed)
	})
}
