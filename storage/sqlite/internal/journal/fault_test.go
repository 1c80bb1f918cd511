//go:build linux

package journal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const cont = unix.SIGCONT

// stop stops a child process, and returns when it has stopped.
func stop(t *testing.T, p *os.Process) {
	t.Helper()
	if err := p.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(p.Pid, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("%v, %v", status, err)
	}
}

// A file that is truncated while it is open takes no further records once that is noticed: at once if the header is
// gone, otherwise when a record is missed.
func TestTruncatedWhileOpen(t *testing.T) {
	for name, length := range map[string]int64{"all of it": 0, "half of the header": headerSize / 2, "the records": headerSize} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			j := mustOpen(t, small(path))
			mustOwn(t, j, 0)
			mustAdd(t, j, 1, 2)
			s := j.Segments(0)[0]
			if err := os.Truncate(path, length); err != nil {
				t.Fatal(err)
			}
			if err := j.InPlace(); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("it is in place: %v", err)
			}
			if length == 0 {
				refuses(t, j)
			}
			if ok, err := readOne(s, 0, new(Record)); ok || length > 0 && err == nil {
				t.Errorf("reading: %v, %v", ok, err)
			}
			if _, err := s.ReadPending(0, 1, func(int, *Record) {}); err == nil || j.Err() == nil {
				t.Errorf("reading what must be there: %v, the journal says %v", err, j.Err())
			}
			refuses(t, j)
			if j.Owned() || j.Own(0, 0) {
				t.Error("a broken journal is owned")
			}
			j.Seal()
			if err := j.Settle(s); err == nil {
				t.Error("it is settled")
			}
			j.Free(1)
			refuses(t, j)
			j.Newest()
			j.Segments(0)
			if err := j.Close(); err != nil {
				t.Error(err)
			}
			j = mustOpen(t, small(path))
			mustOwn(t, j, 0)
			mustAdd(t, j, 3)
		})
	}
}

// Every method meets the missing file first.
func TestTruncatedFileAnywhere(t *testing.T) {
	for name, call := range map[string]func(j *Journal, s *Segment){
		"Owned": func(j *Journal, _ *Segment) { j.Owned() }, "Own": func(j *Journal, _ *Segment) { j.Own(0, 0) },
		"Newest": func(j *Journal, _ *Segment) { j.Newest() }, "Seal": func(j *Journal, _ *Segment) { j.Seal() },
		"Disown": func(j *Journal, _ *Segment) { j.Disown() },
		"Read":   func(_ *Journal, s *Segment) { _, _ = readOne(s, 0, new(Record)) },
		"Erase":  func(j *Journal, s *Segment) { s.sealed.Store(true); _ = j.Erase(s) },
	} {
		path := newPath(t)
		j := mustOpen(t, small(path))
		mustOwn(t, j, 0)
		mustAdd(t, j, 1)
		s := j.Segments(0)[0]
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		if call(j, s); j.Err() == nil {
			t.Errorf("%s: the journal is not broken", name)
		}
		refuses(t, j)
		if j.Owned() {
			t.Errorf("%s: it is owned", name)
		}
	}
	path := newPath(t)
	j := mustOpen(t, small(path))
	mustOwn(t, j, 0)
	mustAdd(t, j, 1)
	j.Disown()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if segments := j.Segments(0); len(segments) != 0 || j.Err() == nil {
		t.Errorf("%d segments, %v", len(segments), j.Err())
	}
}

// A disk may be full when a page of the file has to be allocated after all, as where a file system copies on write. A
// hole stands for that here.
func TestDiskFullLater(t *testing.T) {
	folder := smallDisk(t)
	path := filepath.Join(folder, "journal")
	j := mustOpen(t, Options{Path: path, Segments: 2, Records: 4096})
	mustOwn(t, j, 0)
	mustAdd(t, j, 1)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 2*headerSize, 64<<10)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "rest"), make([]byte, 2<<20), 0o600); err == nil {
		t.Fatal("the disk has space for everything")
	}
	added := 1
	for n := 2; n < 200; n++ {
		if r := numbered(n); !j.Add(r) {
			break
		}
		added++
	}
	if added != headerSize/recordSize || j.Err() == nil {
		t.Errorf("%d records were added until the disk was full: %v", added, j.Err())
	}
	left := 0
	for i := range added {
		if ok, err := readOne(j.Segments(0)[0], i, new(Record)); ok && err == nil {
			left++
		}
	}
	if left != added {
		t.Errorf("of %d records %d are found", added, left)
	}
	j.Close()
}
