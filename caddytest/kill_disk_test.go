package caddytest

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"
)

// stamp tells the states of some files apart.
func stamp(paths ...string) (s string) {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			s += fmt.Sprint(path, info.Size(), info.ModTime().UnixNano())
		}
	}
	return s
}

// isCheckpointed reports whether everything that the last checkpoint of a database
// was to copy was copied, by what is written in the index of its log
// (https://www.sqlite.org/walformat.html#the_wal_index_header): nBackfill, and
// nBackfillAttempted.
func isCheckpointed(t *testing.T, path string) bool {
	t.Helper()
	index := head(t, path+"-shm", 132)
	return len(index) < 132 || binary.NativeEndian.Uint32(index[96:]) >= binary.NativeEndian.Uint32(index[128:])
}

// head returns up to n bytes from the beginning of a file, which may be missing.
func head(t *testing.T, path string, n int) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return content[:min(n, len(content))]
}

// checkLeft checks the integrity of what a process has left of a database, and
// returns how many counts there are in it. It opens a copy: the next process is
// to find what was left.
func checkLeft(t *testing.T, path string) (rows int) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy.db")
	for _, suffix := range []string{"", "-wal", "-journal"} {
		content, err := os.ReadFile(path + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(copied+suffix, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rows, err := integrity(copied)
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		os.Remove(copied + suffix)
	}
	return rows
}

// integrity returns an error unless SQLite finds a database in order, and how
// many rows of counters it has.
func integrity(path string) (rows int, err error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	var found string
	if err := db.QueryRow(`PRAGMA integrity_check`).Scan(&found); err != nil {
		return 0, fmt.Errorf("integrity check: %w", err)
	}
	if found != "ok" {
		return 0, fmt.Errorf("integrity check: %s", found)
	}
	var tables int
	if err := db.QueryRow(`SELECT count(*) FROM sqlite_schema WHERE name = 'counters'`).Scan(&tables); err != nil || tables == 0 {
		return 0, err // killed before there were any
	}
	return rows, db.QueryRow(`SELECT count(*) FROM counters`).Scan(&rows)
}
