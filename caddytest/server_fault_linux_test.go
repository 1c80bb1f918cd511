package caddytest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// mount mounts a small disk at {$DIR}/disk.
func (s *server) mount(options string) (disk string) {
	s.t.Helper()
	disk = filepath.Join(s.dir, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		s.t.Fatal(err)
	}
	err := syscall.Mount("tmpfs", disk, "tmpfs", 0, options)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		s.t.Skip("only root may mount a disk:", err)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			s.t.Error(err)
		}
	})
	return disk
}

// fill takes all the room on a disk.
func fill(t *testing.T, disk string) (ballast string) {
	t.Helper()
	ballast = filepath.Join(disk, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4<<10))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return ballast
}

// Somebody reads the database all the time: otherwise the room that its log takes would be used
// again, and the store be in use again although the disk is full.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	s := newServer(t, failing("{$DIR}/disk/tally.db"+noJournal))
	disk := s.mount("size=1m")
	s.start()
	s.checkFault("the disk is full", func() func() {
		stop := readDatabase(t, filepath.Join(disk, "tally.db"))
		ballast := fill(t, disk)
		return func() {
			remove(t, ballast)
			stop()
		}
	})
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// There is no room for a database to begin with.
func TestDiskFullFromTheStart(t *testing.T) {
	t.Parallel()
	s := newServer(t, failing("{$DIR}/disk/tally.db"))
	ballast := fill(t, s.mount("size=256k"))
	s.start()
	s.wantPassed(4, 20, "/")
	if health := s.health(); !health.Degraded || !strings.Contains(health.Reason, "make room") && !strings.Contains(health.Reason, "disk is full") {
		t.Errorf("health is %+v", health)
	}
	remove(t, ballast)
	s.awaitRecovery()
	s.wantPassed(6, 20, "/")
}

func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	s := newServer(t, failing("{$DIR}/disk/tally.db"))
	disk := s.mount("size=1m")
	remount := func(flags uintptr) {
		if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(syscall.MS_RDONLY)
	s.start()
	s.wantPassed(4, 20, "/")
	if health := s.health(); !strings.Contains(health.Reason, disk) || !strings.Contains(health.Reason, "read-only file system; name a path on a disk that can be written to") {
		t.Errorf("health is %+v", health)
	}
	remount(0)
	s.awaitRecovery()
	s.wantPassed(6, 20, "/")
}

func TestDiskThatFails(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("there is no strace to make system calls fail:", err)
	}
	faults := []struct{ name, store, calls, reason string }{
		{"some writes", noJournal, "pwrite64:error=EIO:when=2+2", "disk I/O error"},
		{"writes for want of room", noJournal, "pwrite64:error=ENOSPC", "the disk is full"},
		{"reads and writes", noJournal, "pread64,pwrite64:error=EIO", "disk I/O error"},
		{"syncs", " {\nsynchronous full\n}", "fsync,fdatasync:error=EIO", "disk I/O error"},

		// With PROOF only:
		{"writes", noJournal, "pwrite64:error=EIO", "disk I/O error"},
		{"writes for want of quota", noJournal, "pwrite64:error=EDQUOT", "disk I/O error"},
		{"writes on a disk that became read-only", noJournal, "pwrite64:error=EROFS", "disk I/O error"},
	}
	for _, c := range faults[:min(proof.Times(4, len(faults)), len(faults))] {
		t.Run(c.name, func(t *testing.T) {
			s := startCaddy(t, failing("{$DIR}/tally.db"+c.store))
			s.checkFault(c.reason, func() func() { return s.failCalls(c.calls) })
		})
	}
}

// failCalls has system calls of Caddy fail on the database and its log.
func (s *server) failCalls(calls string) (stop func()) {
	s.t.Helper()
	names, _, _ := strings.Cut(calls, ":")
	database := filepath.Join(s.dir, "tally.db")
	trace := exec.Command("strace", "-f", "-qq", "-o", filepath.Join(s.dir, "strace"), "-P", database, "-P", database+"-wal",
		"-e", "trace="+names, "-e", "inject="+calls, "-p", fmt.Sprint(s.cmd.Process.Pid))
	var said strings.Builder
	trace.Stderr = &said
	if err := trace.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- trace.Wait() }()
	waitFor(s.t, "strace to be attached", func() bool {
		select {
		case err := <-ended:
			if strings.Contains(said.String(), "not permitted") {
				s.t.Skip("strace may not be used:", said.String())
			}
			s.t.Fatalf("strace: %v: %s", err, said.String())
		default:
		}
		return s.isTraced()
	})
	return func() {
		if err := trace.Process.Signal(syscall.SIGINT); err != nil {
			s.t.Fatal(err)
		}
		<-ended // it ends by that signal
	}
}

// isTraced reports whether all threads of Caddy are traced.
func (s *server) isTraced() bool {
	threads := fmt.Sprintf("/proc/%d/task", s.cmd.Process.Pid)
	traced := true
	err := filepath.WalkDir(threads, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "status" {
			return err
		}
		status, err := os.ReadFile(path)
		traced = traced && !strings.Contains(string(status), "TracerPid:\t0\n")
		return err
	})
	return err == nil && traced
}

func TestWriteLimit(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, failing("{$DIR}/tally.db"+noJournal))
	s.checkFault("disk I/O error", func() func() {
		before := s.limitFiles(1, 0) // nothing can be written but one byte
		return func() { s.limitFiles(before, before) }
	})
}

// limitFiles sets how long the files may be that Caddy writes, and returns how long
// that was before. A hard limit of 0 stays what it is.
func (s *server) limitFiles(soft, hard uint64) (before uint64) {
	s.t.Helper()
	const fileSize = 1 // RLIMIT_FSIZE
	var old syscall.Rlimit
	if err := syscall.Getrlimit(fileSize, &old); err != nil { // which Caddy has inherited
		s.t.Fatal(err)
	}
	if hard == 0 {
		hard = old.Max
	}
	wanted := syscall.Rlimit{Cur: soft, Max: hard}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(s.cmd.Process.Pid), fileSize,
		uintptr(unsafe.Pointer(&wanted)), 0, 0, 0)
	if errno != 0 {
		s.t.Fatal(errno)
	}
	return old.Cur
}
