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
			s.umask = umask
			s.start()
			s.wantPassed(2, 3, "/")
			folder := filepath.Dir(s.database())
			wantMode(t, folder, fs.ModeDir|0o700)
			for _, name := range []string{"tally.db", "tally.db-wal", "tally.db-shm", "tally.key"} {
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
