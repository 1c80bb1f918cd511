package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// Two stores notice one after the other that their database was removed or replaced. The second
// doesn't damage the new database of the first.
func TestReplacedUnderTwoStores(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(path string) error{
		"removed": os.Remove,
		"renamed": func(path string) error { return os.Rename(path, path+".old") },
		"removed with its log": func(path string) error {
			return errors.Join(os.Remove(path), os.Remove(path+walSuffix), os.Remove(path+shmSuffix))
		},
		"replaced by another": func(path string) error {
			other := opened(t, Options{Path: path + ".new"})
			return errors.Join(fill(other, 5000, 500), other.Close(), os.Rename(path+".new", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tally.db")
			first, second := opened(t, Options{Path: path}), opened(t, Options{Path: path})
			mustFill(t, first, 0, 1000)
			mustFill(t, second, 1000, 1000)
			if err := replace(path); err != nil {
				t.Fatal(err)
			}
			reopen := func(s *Store, from uint64) *Store {
				if _, err := one(t, s, 1); err == nil {
					t.Fatal("claim: got no error")
				}
				if err := s.Close(); err != nil {
					t.Logf("close: %v", err)
				}
				s = opened(t, Options{Path: path, Notice: func(n Notice) { t.Errorf("got notice %+v", n) }})
				mustFill(t, s, from, 500)
				return s
			}
			want := int64(2000)
			if name == "replaced by another" {
				want += 500
			}
			first = reopen(first, 0)
			second = reopen(second, 500)
			mustFill(t, first, 1000, 500)
			mustFill(t, second, 1500, 500)
			for i, s := range []*Store{first, second} {
				if n, err := askWriter(s, `SELECT count(*) FROM counters`); err != nil || n != want {
					t.Errorf("store %d sees %d rows (%v), want %d", i, n, err, want)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			checkIntegrity(t, path)
			if exists(path+walSuffix) || exists(path+shmSuffix) {
				t.Errorf("got files %q", list(t, path))
			}
		})
	}
}

// A log or an index that was moved is noticed before two stores write to one database with
// different ones. No charge is lost.
func TestLogReplacedUnderTwoStores(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(path string) error{
		"log removed":   func(path string) error { return os.Remove(path + walSuffix) },
		"index removed": func(path string) error { return os.Remove(path + shmSuffix) },
		"index replaced": func(path string) error {
			return errors.Join(os.Remove(path+shmSuffix), os.WriteFile(path+shmSuffix, nil, 0o600))
		},
		"both removed": func(path string) error { return errors.Join(os.Remove(path+walSuffix), os.Remove(path+shmSuffix)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tally.db")
			calm := func(n Notice) { t.Errorf("got notice %+v", n) }
			first, second := opened(t, Options{Path: path, Notice: calm}), opened(t, Options{Path: path, Notice: calm})
			mustFill(t, first, 0, 500)
			mustFill(t, second, 500, 500)
			if err := replace(path); err != nil {
				t.Fatal(err)
			}
			for _, s := range []*Store{first, second} {
				if _, err := s.Sweep(context.Background(), storagetest.At(start)); err != nil {
					t.Error(err)
				}
				if _, err := one(t, s, 1); err == nil {
					t.Fatal("claim: got no error")
				}
			}
			if err := errors.Join(first.Close(), second.Close()); err != nil {
				t.Error(err)
			}
			earlier := first
			first, second = opened(t, Options{Path: path, Notice: calm}), opened(t, Options{Path: path, Notice: calm})
			if got, want := first.Continues(earlier), name != "index replaced"; got != want { // by somebody who may have written
				t.Errorf("continues the earlier store: %v, want %v", got, want)
			}
			mustFill(t, first, 2000, 500)
			mustFill(t, second, 3000, 500)
			for i, s := range []*Store{first, second} {
				if n, err := askWriter(s, `SELECT count(*) FROM counters`); err != nil || n != 2000 {
					t.Errorf("store %d sees %d rows (%v), want 2000", i, n, err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			checkIntegrity(t, path)
		})
	}
}

// All connections of a process use the index that the first of them has opened, wherever that file
// is now. A store whose connections would use a deleted index refuses to open.
func TestOpenWithAnIndexThatIsGone(t *testing.T) {
	t.Parallel()
	o := Options{Path: filepath.Join(t.TempDir(), "tally.db")}
	first := opened(t, o)
	if err := os.Remove(o.Path + shmSuffix); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(context.Background(), o); err == nil {
		_ = s.Close()
		t.Error("got no error")
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	mustFill(t, opened(t, o), 0, 10)
}
