//go:build linux

package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestImpossibleOptions(t *testing.T) {
	path := newPath(t)
	for _, o := range []Options{
		{Segments: -1}, {Records: -1}, {Segments: maxSegments + 1, Records: 1}, {Segments: 1, Records: maxSize / recordSize},
	} {
		o.Path = path
		if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "expected 1 to 480 segments") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a file: %v", err)
	}
}

func TestOnlyRegularFiles(t *testing.T) {
	folder := t.TempDir()
	target, link := filepath.Join(folder, "target"), filepath.Join(folder, "link")
	if err := errors.Join(os.WriteFile(target, []byte("text"), 0o600), os.Symlink(target, link)); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(folder, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		link: "is a symbolic link", folder: "is a directory", fifo: "is no regular file", filepath.Join(folder, "none", "x"): "no such file",
	} {
		if _, err := Open(t.Context(), small(path)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; expected %q", path, err, want)
		}
	}
	if text, err := os.ReadFile(target); string(text) != "text" {
		t.Errorf("the link's target is %q, %v", text, err)
	}
}

func TestOnlyLocalFileSystems(t *testing.T) {
	for number, name := range map[uint32]string{
		unix.NFS_SUPER_MAGIC: "NFS (0x6969)", unix.CIFS_SUPER_MAGIC: "SMB", unix.FUSE_SUPER_MAGIC: "FUSE", unix.V9FS_MAGIC: "9p", 77: "unknown (0x4d)",
	} {
		if err := checkMagic(number); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), name) {
			t.Errorf("%#x: %v; expected %s", number, err, name)
		}
	}
	for _, number := range []uint32{unix.EXT4_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC} {
		if err := checkMagic(number); err != nil {
			t.Error(err)
		}
	}
	// One of these that every machine has.
	path := fmt.Sprintf("/proc/%d/comm", os.Getpid())
	if _, err := Open(t.Context(), small(path)); !errors.Is(err, ErrUnsupported) {
		t.Errorf("%s: %v", path, err)
	}
}

// Nothing of the file is a hole, and a file that gets no space is not left behind.
func TestSpaceIsAllocated(t *testing.T) {
	path := newPath(t)
	defer unix.Umask(unix.Umask(0o777)) // is not for this file
	j := mustOpen(t, Options{Path: path, Segments: 2, Records: 1000})
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Blocks*512 < j.size {
		t.Errorf("%d bytes of %d are on the disk; %v", st.Blocks*512, j.size, err)
	}
	if st.Mode&0o777 != 0o600 {
		t.Errorf("its mode is %o", st.Mode)
	}
}

func TestFullDisk(t *testing.T) {
	folder := smallDisk(t)
	path := filepath.Join(folder, "journal")
	if _, err := Open(t.Context(), Options{Path: path}); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("32 MiB on a disk of one: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Path: path}); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("32 MiB on a disk of one: %v", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("a file that was there before: %v", err)
	}
	mustOwn(t, mustOpen(t, small(path)), 0)
}

// smallDisk returns a folder on a disk of one MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := unix.Mount("none", folder, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small tmpfs can't be mounted, so a full disk is not tested: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(folder, 0); err != nil { // fails if the file is still mapped
			t.Error(err)
		}
	})
	return folder
}

func TestInPlace(t *testing.T) {
	path := newPath(t)
	a := mustOpen(t, small(path))
	mustOwn(t, a, 0)
	expect := func(want string) {
		t.Helper()
		if err := a.InPlace(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v; expected %q", err, want)
		}
	}
	expect("")
	aside := path + "-aside"
	if err := os.Rename(path, aside); err != nil {
		t.Fatal(err)
	}
	expect("was removed")
	if a.Disown(); a.Own(0, 0) {
		t.Error("it is owned though others would open another file")
	}
	b := mustOpen(t, small(path))
	expect("was replaced")
	b.Close()
	if err := errors.Join(os.Rename(aside, path), os.Truncate(path, 100)); err != nil {
		t.Fatal(err)
	}
	expect("its size is 100")
	a.Close()
	expect("closed")
}

// The file of a journal is never mapped into memory, where a page fault would wait for a disk that hangs.
func isMapped(t *testing.T, path string) bool {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(maps), path)
}

func TestCloseLetsGo(t *testing.T) {
	path := newPath(t)
	j := mustOpen(t, small(path))
	mustOwn(t, j, 0)
	mustAdd(t, j, 1)
	s := j.Segments(0)[0]
	if isMapped(t, path) {
		t.Error("the file is mapped")
	}
	for range 2 { // the second does nothing
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	if j.Owned() || j.Add(Record{}) || j.Own(0, 0) || j.Newest() != 0 || len(j.Segments(0)) != 0 || j.Settle(s) != errClosed {
		t.Error("a closed journal is in use")
	}
	if ok, err := readOne(s, 0, new(Record)); ok || err != errClosed {
		t.Errorf("reading it: %v, %v", ok, err)
	}
	j.Seal()
	j.Free(9)
	j.Disown()
}

// election takes the election lock of a file, until that is closed.
func election(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if elected, err := lock(f, electionByte, 1); !elected || err != nil {
		t.Fatal(err)
	}
	return f
}

// A descriptor that a child process has for a moment keeps no lock.
func TestCloseEndsLocks(t *testing.T) {
	path := newPath(t)
	a, b := mustOpen(t, small(path)), mustOpen(t, small(path))
	copied, err := unix.Dup(int(a.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(copied)
	a.Close()
	mustOwn(t, b, 0)
}

// One who waits while the file is replaced opens the new one.
func TestReplacedWhileOneWaits(t *testing.T) {
	path := newPath(t)
	a := mustOpen(t, small(path))
	elected := election(t, path)
	if a.Own(0, 0) {
		t.Error("it became the owner")
	}
	synctest.Test(t, func(t *testing.T) {
		opened := make(chan *Journal)
		go func() {
			j, err := Open(t.Context(), small(path))
			if err != nil {
				t.Error(err)
			}
			opened <- j
		}()
		synctest.Wait() // it polls
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
		elected.Close()
		b := <-opened
		if err := b.InPlace(); err != nil {
			t.Error(err)
		}
		if !b.Own(0, 0) {
			t.Error("it can't be owned")
		}
		b.Close()
	})
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	path := newPath(t)
	a := mustOpen(t, small(path))
	mustOwn(t, a, 0)
	election(t, path)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := Open(ctx, small(path)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it returns %v", err)
		}
	})
	mustAdd(t, a, 1) // it was not revoked
}

func TestMoreThanAThousandAreRefused(t *testing.T) {
	path := newPath(t)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if all, err := lock(f, presenceByte, presenceBytes-1); !all || err != nil {
		t.Fatal(err)
	}
	mustOpen(t, small(path))
	if _, err := Open(t.Context(), small(path)); err == nil || !strings.Contains(err.Error(), "1024") {
		t.Errorf("the 1025th: %v", err)
	}
}
