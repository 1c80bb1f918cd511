package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

const pageSize = 2048

// spoil overwrites bytes of a file.
func spoil(t *testing.T, path string, offset int64, n int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(strings.Repeat("\xa5", n)), offset); err != nil {
		t.Fatal(err)
	}
}

// closedDatabase makes a database with many rows and returns its path.
func closedDatabase(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tally.db")
	s := opened(t, Options{Path: path})
	mustFill(t, s, 0, 1000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// atDate is an Options.now.
func atDate() time.Time { return time.Date(2026, 11, 21, 15, 15, 0, 0, time.FixedZone("CET", 3600)) }

func TestDamagedIsSetAside(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, path string){
		"page size in the header": func(t *testing.T, path string) { spoil(t, path, 16, 2) },
		"schema":                  func(t *testing.T, path string) { spoil(t, path, 100, pageSize-100) },
		"name of a column": func(t *testing.T, path string) {
			c := raw(t, path)
			defer c.close()
			mustExec(t, c, `PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'units', 'unitz')`)
		},
		"all but the header": func(t *testing.T, path string) { spoil(t, path, 100, 100*pageSize) },
		"truncated": func(t *testing.T, path string) {
			if err := os.Truncate(path, 3*pageSize); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := closedDatabase(t)
			damage(t, path)
			was := read(t, path)

			var notices []Notice
			s := opened(t, Options{Path: path, now: atDate, Notice: func(n Notice) { notices = append(notices, n) }})
			mustFill(t, s, 0, 10)
			if len(notices) != 1 {
				t.Fatalf("got %d notices, want 1: %v", len(notices), notices)
			}
			aside := path + ".corrupt-20261121T141500Z"
			if n := notices[0]; n.Path != path || n.Aside != aside || n.Cause == nil {
				t.Errorf("got notice %+v", n)
			}
			if read(t, aside) != was {
				t.Error("the damaged file was changed")
			}
		})
	}
}

// The log of a damaged database must not be found beside the fresh one.
func TestLogIsSetAsideToo(t *testing.T) {
	t.Parallel()
	path := closedDatabase(t)
	write(t, path+"-wal", "log")
	write(t, path+"-shm", "index")
	write(t, path+"-damaged", "")
	var aside string
	opened(t, Options{Path: path, Notice: func(n Notice) { aside = n.Aside }})
	if got := read(t, aside+"-wal"); got != "log" {
		t.Errorf("the log that was set aside says %q", got)
	}
	if got := read(t, aside+"-shm"); got != "index" {
		t.Errorf("the index that was set aside says %q", got)
	}
	if isMarked(path) {
		t.Error("the fresh database is marked as damaged")
	}
}

func TestSetAsideNamesAreUnique(t *testing.T) {
	t.Parallel()
	path := closedDatabase(t)
	for i, want := range []string{"", "-2", "-3"} {
		spoil(t, path, 100, 1000)
		var aside string
		s := opened(t, Options{Path: path, now: atDate, Notice: func(n Notice) { aside = n.Aside }})
		if want := path + ".corrupt-20261121T141500Z" + want; aside != want {
			t.Errorf("%d: got %q, want %q", i, aside, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A disk that damages one database after the other isn't filled with them.
func TestFewAreKeptAside(t *testing.T) {
	t.Parallel()
	path := closedDatabase(t)
	mine := path + ".corrupt-20200101T000000Z.copy"
	write(t, mine, "")
	now := atDate()
	for range 10 {
		now = now.Add(time.Second)
		write(t, path+walSuffix, "log")
		write(t, path+damagedSuffix, "")
		if err := opened(t, Options{Path: path, now: func() time.Time { return now }}).Close(); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{filepath.Base(path), filepath.Base(mine)}
	for i := keptAsides - 1; i >= 0; i-- {
		aside := "tally.db.corrupt-" + now.Add(-time.Duration(i)*time.Second).UTC().Format("20060102T150405Z")
		want = append(want, aside, aside+walSuffix)
	}
	if names := list(t, path); !slices.Equal(names, want) {
		t.Errorf("got files %q, want %q", names, want)
	}
}

// Damage that isn't found by opening is found by reading, and by the next Open.
func TestDamageFoundWhileInUse(t *testing.T) {
	t.Parallel()
	path := closedDatabase(t)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	s := opened(t, Options{Path: path, Notice: func(n Notice) { t.Errorf("got notice %+v", n) }})
	spoil(t, path, 8*pageSize, int(info.Size())-8*pageSize)
	if err := fill(s, 0, 1000); !errors.Is(err, storage.ErrCorrupt) {
		t.Fatalf("got %v, want %v", err, storage.ErrCorrupt)
	}
	if err := s.Close(); err != nil {
		t.Logf("close: %v", err)
	}

	set := 0
	s = opened(t, Options{Path: path, Notice: func(Notice) { set++ }})
	if set != 1 {
		t.Errorf("got %d notices, want 1", set)
	}
	mustFill(t, s, 0, 1000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	opened(t, Options{Path: path, Notice: func(Notice) { set++ }})
	if set != 1 {
		t.Error("the fresh database was set aside as well")
	}
}

// A store whose file was replaced does not set the new one aside.
func TestDamageOfAReplacedFile(t *testing.T) {
	t.Parallel()
	path := closedDatabase(t)
	s := opened(t, Options{Path: path})
	if err := os.Rename(path, path+"-old"); err != nil {
		t.Fatal(err)
	}
	write(t, path, "")
	s.tx.mu.Lock()
	err := s.place.failed(storage.ErrCorrupt)
	s.tx.mu.Unlock()
	if !errors.Is(err, storage.ErrCorrupt) || isMarked(path) {
		t.Errorf("got %v, marked: %v", err, isMarked(path))
	}
}

// Values that no version of this program writes don't cause a panic, or grants of too many units.
func TestDamagedValues(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"-9223372036854775808", "-1", "9223372036854775807", "4611686018427387904"} {
		t.Run(value, func(t *testing.T) {
			path := closedDatabase(t)
			c := raw(t, path)
			mustExec(t, c, fmt.Sprintf(`UPDATE counters SET used = %[1]s; UPDATE buckets SET units = %[1]s, part = %[1]s`, value))
			if err := c.close(); err != nil {
				t.Fatal(err)
			}
			s := opened(t, Options{Path: path})
			mustFill(t, s, 0, 100)
			mustFill(t, s, 0, 100)
			for id := range storage.LimitID(2) {
				l := newLimit(t, limiter.Params{Algorithm: limiter.Algorithm(id * 2), Amount: 10, Window: time.Minute})
				claims := []storage.Claim{{ID: id, Key: key(1), Limit: l, Claim: limiter.Claim{Now: start, Min: 1, Want: 100}}}
				grants := make([]limiter.Grant, 1)
				if err := s.Claim(context.Background(), storagetest.At(start), claims, grants); err != nil {
					t.Fatal(err)
				}
				if grants[0].Units < 0 || grants[0].Units > 8 { // two are gone, or are refused
					t.Errorf("limit %d: granted %d", id, grants[0].Units)
				}
			}
			if _, err := s.Sweep(context.Background(), storagetest.At(start)); err != nil {
				t.Error(err)
			}
		})
	}
}
