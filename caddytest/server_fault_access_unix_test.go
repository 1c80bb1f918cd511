//go:build unix

package caddytest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nobody is a user without rights.
const nobody = 65534

// asNobody has Caddy run as a user without rights, where the test runs as one who
// has all of them.
func (s *server) asNobody() {
	s.t.Helper()
	if os.Getuid() != 0 {
		return
	}
	s.attributes = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	binary, err := caddyBinary()
	if err != nil {
		s.t.Fatal(err)
	}
	file, err := filepath.EvalSymlinks(binary)
	if err != nil {
		s.t.Fatal(err)
	}
	s.open(filepath.Dir(binary))
	s.open(filepath.Dir(file))
	s.open(s.dir)
	s.give(s.dir)
}

// open has everybody come into a folder, and into those it lies in, until the test
// ends. A folder for temporary files may be its owner's alone.
func (s *server) open(folder string) {
	s.t.Helper()
	if parent := filepath.Dir(folder); parent != folder {
		s.open(parent)
	}
	info, err := os.Stat(folder)
	if err != nil {
		s.t.Fatal(err)
	}
	if info.Mode().Perm()&0o001 == 0 {
		s.chmod(folder, info.Mode()|0o001)
	}
}

// give makes all that is in a folder, and the folder, Caddy's.
func (s *server) give(folder string) {
	s.t.Helper()
	if os.Getuid() != 0 {
		return
	}
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, nobody, nobody)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestDatabaseThatMayNotBeUsed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		spoil func(s *server, folder string) (mend func())
	}{
		{"folder may not be written to", func(s *server, folder string) func() {
			return s.chmod(folder, 0o555)
		}},
		{"folder may not be entered", func(s *server, folder string) func() {
			return s.chmod(folder, 0)
		}},
		{"folder may not be made", func(s *server, folder string) func() {
			if err := os.Remove(folder); err != nil {
				s.t.Fatal(err)
			}
			return s.chmod(filepath.Dir(folder), 0o555)
		}},
		{"database may only be read", func(s *server, folder string) func() {
			s.start()
			s.stop()
			return s.chmod(filepath.Join(folder, "tally.db"), 0o444)
		}},
		{"database may not be read", func(s *server, folder string) func() {
			s.start()
			s.stop()
			return s.chmod(filepath.Join(folder, "tally.db"), 0)
		}},
		{"secret may not be read", func(s *server, folder string) func() {
			s.start()
			s.stop()
			return s.chmod(filepath.Join(folder, "tally.key"), 0)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, withStore(config("zone z {\nlimit 10/1h\n}"), "{$DIR}/parent/folder/tally.db"))
			folder := filepath.Join(s.dir, "parent", "folder")
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			s.asNobody()
			mend := c.spoil(s, folder)
			s.start()
			s.wantPassed(4, 6, "/") // 40 % of the limit
			s.wantPassed(1, 1, "/", from(1))
			said := s.logLines("the store can't be used; reduced limits are kept in memory until it can")
			if len(said) != 1 {
				t.Fatalf("it is said %d times, want once", len(said))
			}
			reason, _ := said[0]["error"].(string)
			if !strings.Contains(reason, folder) || !strings.Contains(reason, "permission denied; make the user that Caddy runs as the owner") {
				t.Errorf("the reason %q lacks the path or the remedy", reason)
			}
			mend()
			s.awaitRecovery()
			s.wantPassed(9, 10, "/", from(1))
		})
	}
}

// chmod changes the mode of a file until it is called off.
func (s *server) chmod(path string, mode fs.FileMode) (undo func()) {
	s.t.Helper()
	before, err := os.Stat(path)
	if err != nil {
		s.t.Fatal(err)
	}
	change := func(mode fs.FileMode) {
		if err := os.Chmod(path, mode); err != nil {
			s.t.Fatal(err)
		}
	}
	change(mode)
	undo = func() { change(before.Mode()) }
	s.t.Cleanup(func() { os.Chmod(path, before.Mode()) }) // so that it can be removed
	return undo
}
