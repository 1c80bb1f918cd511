package sqlite

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// isIn reports whether any file of a database contains the name of a key.
func isIn(t *testing.T, path string, n uint64) bool {
	t.Helper()
	name := key(n)
	return strings.Contains(read(t, path), string(name[:])) || strings.Contains(read(t, path+walSuffix), string(name[:]))
}

// awaitGone waits until none does.
func awaitGone(t *testing.T, path string, n uint64) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); isIn(t, path, n); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the name of a deleted key is still in the database or its log")
		}
	}
}

func mustSweep(t *testing.T, s *Store, now int64) {
	t.Helper()
	if _, err := s.Sweep(context.Background(), storagetest.At(now)); err != nil {
		t.Fatal(err)
	}
}

// Deleted keys are soon in no file, not even in the log, while the store is in use.
func TestDeletedRowsLeaveTheLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	s := opened(t, Options{Path: path})
	mustFill(t, s, 0, 10)
	if !isIn(t, path, 5) {
		t.Fatal("a key is not in the files")
	}
	now := start + int64(time.Hour)
	mustSweep(t, s, now) // as the first one does, since nobody knows of how long the log is there
	awaitGone(t, path, 5)

	mustFill(t, s, 20, 10)
	mustSweep(t, s, now+int64(time.Minute))
	if !isIn(t, path, 25) {
		t.Error("the log is emptied with every sweep")
	}
	mustSweep(t, s, now+emptyLogEvery)
	awaitGone(t, path, 25)
}

// A reader prevents the log from being emptied. A later sweep empties it.
func TestLogIsEmptiedOnceNobodyReadsIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	s, reader := opened(t, Options{Path: path}), raw(t, path)
	mustFill(t, s, 0, 10)
	if err := reader.exec(`BEGIN; SELECT count(*) FROM counters`); err != nil {
		t.Fatal(err)
	}
	now := start + int64(time.Hour)
	mustSweep(t, s, now)
	if err := s.log.checkpoint(); err != nil {
		t.Fatal(err)
	}
	if !isIn(t, path, 5) {
		t.Fatal("a log is emptied that somebody reads")
	}
	mustFill(t, s, 20, 1) // claims go on
	if err := reader.exec(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	mustSweep(t, s, now+int64(time.Minute))
	awaitGone(t, path, 5)
}
