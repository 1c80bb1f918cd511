//go:build unix

package caddytest

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Only the owner may read what lies beside the database, whatever the umask is.
func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	for _, umask := range []string{"000", "077"} {
		t.Run(umask, func(t *testing.T) {
			s := newServer(t, config("zone z {\nlimit 2/1h\n}"))
			s.before = "umask " + umask
			s.start()
			s.wantPassed(2, 3, "/")
			folder := filepath.Dir(s.database())
			wantMode(t, folder, fs.ModeDir|0o700)
			for _, name := range []string{"tally.db", "tally.db-wal", "tally.db-shm", "tally.db-names", "tally.key"} {
				wantMode(t, filepath.Join(folder, name), 0o600)
			}
		})
	}
}

func wantMode(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Error(err)
		return
	}
	if info.Mode() != mode {
		t.Errorf("mode of %s is %v, want %v", path, info.Mode(), mode)
	}
}

// Where files may not have the 32 MiB of the journal (LimitFSIZE of systemd, a quota), it is smaller, and
// the store is in use.
func TestJournalFitsTheLimitOfFiles(t *testing.T) {
	t.Parallel()
	s := newServer(t, config("zone z {\nlimit 20/1h\n}"))
	s.before = "ulimit -f 8192" // of 512 bytes
	s.start()
	s.wantPassed(20, 21, "/")
	if lines := s.logLines("store can't be used"); len(lines) > 0 {
		t.Errorf("the log says %v", lines)
	}
	if info, err := os.Stat(s.database() + "-charges"); err != nil || info.Size() > 4<<20 {
		t.Errorf("the journal is %v, %v", info, err)
	}
	s.kill()
	s.start()
	s.wantPassed(0, 1, "/")
}
