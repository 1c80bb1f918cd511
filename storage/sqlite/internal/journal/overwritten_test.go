//go:build linux

package journal

import (
	"os"
	"testing"
)

// overwrite writes to the file of a journal behind its back.
func overwrite(t *testing.T, path string, at, n int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, n), int64(at)); err != nil {
		t.Fatal(err)
	}
}

// A record that this Journal has written can't be a hole.
func TestOverwrittenRecordsBreakTheJournal(t *testing.T) {
	for name, size := range map[string]int{"its first word": 8, "all of it": recordSize} {
		path := newPath(t)
		j := mustOpen(t, small(path))
		mustOwn(t, j, 0)
		mustAdd(t, j, 0, 1, 2, 3, 4)
		overwrite(t, path, at(1), size)
		var r Record
		if ok, err := readOne(j.Segments(0)[0], 1, &r); ok || err == nil || j.Err() == nil {
			t.Errorf("%s: got %v, %v, the journal says %v", name, ok, err, j.Err())
		}
		if ok, err := readOne(j.Segments(0)[0], 2, &r); !ok || err != nil {
			t.Errorf("%s: the next record is %v, %v", name, ok, err)
		}
		if r := numbered(5); j.Add(r) {
			t.Errorf("%s: the journal takes records", name)
		}
	}
}

// What a Journal has written is found after a change of owner, whatever became of the header.
func TestSegmentsOutliveTheirTable(t *testing.T) {
	for name, from := range map[string]int{"the header": 0, "the table": 8 * tableAt} {
		path := newPath(t)
		j := mustOpen(t, small(path))
		mustOwn(t, j, 0)
		mustAdd(t, j, 0, 1, 2, 3, 4)
		overwrite(t, path, from, headerSize-from)
		for _, change := range []string{"disowned", "owned again"} {
			if change == "disowned" {
				j.Disown()
			} else {
				mustOwn(t, j, 0)
			}
			found := 0
			for _, s := range j.Segments(0) {
				for i := range s.Len() {
					var r Record
					if ok, err := readOne(s, i, &r); err != nil {
						t.Fatal(err)
					} else if ok && r == numbered(found) {
						found++
					}
				}
			}
			if found != 5 {
				t.Errorf("%s, %s: %d records are found, want 5", name, change, found)
			}
		}
		mustAdd(t, j, 5)
	}
}
