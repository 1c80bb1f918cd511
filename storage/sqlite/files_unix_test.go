//go:build unix

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-tally/caddy-tally/storage"
)

// A chmod after SQLite has opened the file would leave -wal and -shm readable.
func TestFileModes(t *testing.T) {
	t.Parallel()
	for _, umask := range []int{0, 0o022, 0o777} {
		t.Run(fmt.Sprintf("umask=%04o", umask), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a", "b", "tally.db")
			old := syscall.Umask(umask)
			defer syscall.Umask(old)
			s := created(t, Options{Path: path})
			mustFill(t, s, 0, 10)
			for name, want := range map[string]fs.FileMode{
				filepath.Dir(path): fs.ModeDir | 0o700,
				path:               0o600,
				path + "-wal":      0o600,
				path + "-shm":      0o600,
			} {
				info, err := os.Stat(name)
				if err != nil {
					t.Fatal(err)
				}
				if info.Mode() != want {
					t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
				}
			}
		})
	}
}

func TestExistingFolderKeepsItsMode(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	created(t, Options{Path: filepath.Join(folder, "tally.db")})
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("got mode %v (%v), want it left alone", info.Mode(), err)
	}
}

// Anything in the place of the database that isn't a regular file stays unchanged.
func TestRefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path, victim string) error{
		"symlink":          func(path, victim string) error { return os.Symlink(victim, path) },
		"dangling symlink": func(path, victim string) error { return os.Symlink(victim+"-missing", path) },
		"directory":        func(path, victim string) error { return os.Mkdir(path, 0o700) },
		"fifo":             func(path, victim string) error { return syscall.Mkfifo(path, 0o600) },
		"symlinked wal":    func(path, victim string) error { return os.Symlink(victim, path+"-wal") },
		"symlinked shm":    func(path, victim string) error { return os.Symlink(victim, path+"-shm") },
		"fifo for a wal":   func(path, victim string) error { return syscall.Mkfifo(path+"-wal", 0o600) },
		"symlinked journal": func(path, victim string) error {
			return os.Symlink(victim, path+"-journal")
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			path, victim := filepath.Join(folder, "tally.db"), filepath.Join(folder, "victim")
			write(t, victim, "")
			if err := put(path, victim); err != nil {
				t.Fatal(err)
			}
			s, err := Open(context.Background(), Options{Path: path})
			if err == nil {
				_ = s.Close()
			}
			if !errors.Is(err, storage.ErrForeign) {
				t.Errorf("got %v, want %v", err, storage.ErrForeign)
			}
			if got := read(t, victim); got != "" {
				t.Errorf("the victim was written: %d bytes", len(got))
			}
			if _, err := os.Lstat(victim + "-missing"); err == nil {
				t.Error("the victim was created")
			}
			if strings.HasPrefix(name, "symlinked") || name == "fifo for a wal" {
				return
			}
			if names := list(t, path); len(names) != 2 {
				t.Errorf("something was left beside it: %q", names)
			}
		})
	}
}

func TestOddPaths(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"with space", "question?mode=memory", "hash#tag", "percent%41%zz%", "ampersand&x=1", "file:", ":memory:",
		"ünïcode", "quote'\"", "back\\slash", "new\nline", "bytes\xff\xfe", "plus+semi;", "?", "#",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name, name)
			s := created(t, Options{Path: path})
			mustFill(t, s, 0, 10)
			for _, suffix := range []string{"", walSuffix, shmSuffix} {
				if _, err := os.Lstat(path + suffix); err != nil {
					t.Error(err)
				}
			}
			if names := list(t, path); len(names) != 3 {
				t.Errorf("got files %q", names)
			}
		})
	}
}
