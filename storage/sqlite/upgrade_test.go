package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/caddy-tally/caddy-tally/storage"
)

// ofVersion makes a database as an older program did.
func ofVersion(t *testing.T, version int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tally.db")
	old := raw(t, path)
	mustExec(t, old, `PRAGMA page_size = 2048; PRAGMA auto_vacuum = INCREMENTAL`)
	for _, m := range migrations[:version] {
		mustExec(t, old, m)
	}
	mustExec(t, old, fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d; PRAGMA journal_mode = WAL`, applicationID, version))
	if err := old.close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// An upgrade that is tried says what it changes, and changes nothing.
func TestTryUpgrade(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	path := ofVersion(t, 6)
	for range 2 {
		u, err := TryUpgrade(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"table charges", "table journal", "table reader", "table secret"}; u.Version != 6 || u.Known != int64(SchemaVersion()) || u.Oldest != 8 ||
			!slices.Equal(u.Changes, want) || u.Bytes == 0 || u.Took <= 0 {
			t.Errorf("got %+v, want the changes %q", u, want)
		}
	}
	s := opened(t, Options{Path: path})
	if units := left(t, s, 0, 1); units == 0 {
		t.Error("the database can't be used")
	}
	u, err := TryUpgrade(path) // while a program uses it
	if err != nil || u.Version != u.Known || len(u.Changes) != 0 {
		t.Errorf("of a database of this version: got %+v, %v", u, err)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "*")); err != nil || len(left) > 0 {
		t.Errorf("these files are left: %q, %v", left, err)
	}
}

// What can't be upgraded is an error, and stays as it is.
func TestTryUpgradeOfOthers(t *testing.T) {
	later := ofVersion(t, len(migrations))
	c := raw(t, later)
	mustExec(t, c, fmt.Sprintf(`PRAGMA user_version = %[1]d; UPDATE reader SET oldest = %[1]d`, len(migrations)+1))
	mustExec(t, c, `PRAGMA wal_checkpoint(TRUNCATE)`)
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(text, []byte("not a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		later: storage.ErrForeign, text: storage.ErrForeign, filepath.Dir(text): storage.ErrForeign,
		filepath.Join(filepath.Dir(text), "missing"): fs.ErrNotExist,
	} {
		if _, err := TryUpgrade(path); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", path, err, want)
		}
	}
}
