package sqlite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

func TestConformance(t *testing.T) {
	for name, o := range map[string]Options{"journal": {journalSizes: smallJournal}, "transactions": {NoJournal: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storagetest.Run(t, func(t *testing.T) storage.Opener {
				o := o
				o.Path = filepath.Join(t.TempDir(), "rate limit", "tally.db")
				o.BusyTimeout = patientOptions("").BusyTimeout
				if err := os.Mkdir(filepath.Dir(o.Path), 0o700); err != nil {
					t.Fatal(err)
				}
				putFresh(t, o.Path)
				return func(ctx context.Context) (storage.Store, error) { return Open(ctx, o) }
			})
		})
	}
}

var start = time.Date(2026, 11, 21, 14, 15, 16, 123_456_789, time.UTC).UnixNano()

// opened opens a store without a journal: each claim is a transaction. Most tests are about these.
func opened(t testing.TB, o Options) *Store {
	t.Helper()
	o.NoJournal = true
	return journaled(t, o)
}

// smallJournal is the journal of most tests, because writing the default 32 MiB takes longer than
// the rest of a test.
var smallJournal = journalSizes[1:]

// journaled opens a store with a journal, unless the options disable it.
func journaled(t testing.TB, o Options) *Store {
	t.Helper()
	if o.journalSizes == nil {
		o.journalSizes = smallJournal
	}
	putFresh(t, o.Path)
	s := must(t, o)
	if !o.NoJournal {
		if _, err := s.Time(storagetest.Moment(start), 0); err != nil { // claims that write the time are not journaled
			t.Fatal(err)
		}
	}
	return s
}

// created opens a store like [opened], whose database is created by Open.
func created(t testing.TB, o Options) *Store {
	t.Helper()
	o.NoJournal = true
	return must(t, o)
}

// must opens a store, and closes it at the end of the test.
func must(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// freshOrigin is the origin of [freshDatabase], and of no other database.
const freshOrigin = 0x7a11f5e54da7aba5

// freshDatabase returns the content of a new, unused database.
var freshDatabase = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "sqlite-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "tally.db")
	s, err := Open(context.Background(), Options{Path: path, NoJournal: true})
	if err != nil {
		return nil, err
	}
	s.tx.mu.Lock()
	err = s.tx.conn.exec(`UPDATE origin SET id = ?`, int64(freshOrigin))
	s.tx.mu.Unlock()
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// putFresh writes a new database with its own origin. Creation by SQLite would take most of the
// time of many tests.
func putFresh(t testing.TB, path string) {
	t.Helper()
	if entry, _ := os.Lstat(path); entry != nil {
		return
	}
	content, err := freshDatabase()
	if err != nil {
		t.Fatal(err)
	}
	origin := binary.BigEndian.AppendUint64(nil, freshOrigin)
	at := bytes.Index(content, origin)
	if at < 0 || bytes.Count(content, origin) != 1 {
		t.Fatal("the origin is not in the database")
	}
	content = bytes.Clone(content)
	binary.BigEndian.PutUint64(content[at:], rand.Uint64()>>1|1<<56) // it takes eight bytes
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func newLimit(t testing.TB, p limiter.Params) limiter.Limit {
	t.Helper()
	l, err := limiter.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func key(n uint64) (k storage.Key) {
	binary.BigEndian.PutUint64(k[:], (n+1)*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(k[8:], n)
	return k
}

// fill claims one unit for each of n keys of a sliding limit and of a token bucket.
func fill(s *Store, from, n uint64) error {
	sliding, err := limiter.New(limiter.Params{Amount: 10, Window: time.Minute})
	if err != nil {
		return err
	}
	bucket, err := limiter.New(limiter.Params{Algorithm: limiter.TokenBucket, Amount: 10, Window: time.Minute})
	if err != nil {
		return err
	}
	for ; n > 0; n-- {
		claims := make([]storage.Claim, 0, 200)
		for ; n > 0 && len(claims) < cap(claims); n-- {
			for id, l := range []limiter.Limit{sliding, bucket} {
				claims = append(claims, storage.Claim{ID: storage.LimitID(id), Key: key(from + n), Limit: l,
					Claim: limiter.Claim{Now: start, Min: 1, Want: 1}})
			}
		}
		if err := s.Claim(context.Background(), storagetest.At(start), claims, make([]limiter.Grant, len(claims))); err != nil {
			return err
		}
		if n == 0 {
			break
		}
		n++
	}
	return nil
}

// one claims a unit, and returns the grant.
func one(t testing.TB, s storage.Store, n uint64) (limiter.Grant, error) {
	t.Helper()
	c := storage.Claim{ID: 7, Key: key(n), Limit: newLimit(t, limiter.Params{Amount: 10, Window: time.Minute}),
		Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}
	grants := make([]limiter.Grant, 1)
	err := s.Claim(context.Background(), storagetest.At(start), []storage.Claim{c}, grants)
	return grants[0], err
}

func mustFill(t testing.TB, s *Store, from, n uint64) {
	t.Helper()
	if err := fill(s, from, n); err != nil {
		t.Fatal(err)
	}
}

// raw opens the file directly with the driver.
func raw(t testing.TB, path string) *conn {
	t.Helper()
	connector, err := sqlite3.NewConnector(dsn(path, "mode=rwc"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := connect(connector)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustExec(t testing.TB, c *conn, query string) {
	t.Helper()
	if err := c.exec(query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// checkIntegrity runs SQLite's check of the whole file.
func checkIntegrity(t testing.TB, path string) {
	t.Helper()
	c := raw(t, path)
	defer c.close()
	err := c.each(`PRAGMA integrity_check`, func(row []driver.Value) error {
		if row[0] != "ok" {
			t.Errorf("integrity check: %v", row[0])
		}
		return nil
	})
	if err != nil {
		t.Errorf("integrity check: %v", err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// list returns the names in the folder of a path.
func list(t testing.TB, path string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), chargesSuffix) { // which stays, where there is one
			names = append(names, e.Name())
		}
	}
	return names
}
