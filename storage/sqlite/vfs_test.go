package sqlite

import (
	"database/sql/driver"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/vfs"
)

// Commits are in the files, as a killed process leaves them, whether or not the transaction fits
// the log's buffer.
func TestCommitIsInTheFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	s := opened(t, Options{Path: path})
	rows := int64(0)
	for i, n := range []uint64{1, 1, 3, 90, 1, 90} {
		mustFill(t, s, uint64(rows), n)
		rows += int64(n)
		if i == 3 {
			s.tx.mu.Lock()
			err := s.log.reuseLocked()
			s.tx.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
		}
		left := filepath.Join(t.TempDir(), "tally.db")
		for _, suffix := range []string{"", walSuffix} {
			if err := os.WriteFile(left+suffix, []byte(read(t, path+suffix)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c := raw(t, left)
		if got, err := c.int(`SELECT count(*) FROM counters`); err != nil || got != rows {
			t.Errorf("commit %d: got %d rows (%v), want %d", i, got, err, rows)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}
}

// A store's connections support the pragma that syncs the file, which SQLite otherwise ignores.
func TestStoreSyncs(t *testing.T) {
	t.Parallel()
	s := opened(t, Options{Path: filepath.Join(t.TempDir(), "tally.db")})
	for name, c := range map[string]*conn{"writer": s.tx.conn, "side": s.log.side} {
		var answers []driver.Value
		err := c.each(`PRAGMA `+vfs.SyncPragma, func(row []driver.Value) error {
			answers = append(answers, row...)
			return nil
		})
		if err != nil || !slices.Equal(answers, []driver.Value{"1"}) {
			t.Errorf("%s: got %v (%v), want [1]", name, answers, err)
		}
	}
}
