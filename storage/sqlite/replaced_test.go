package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Two stores find one after the other that their database was removed or
// replaced. What the first has begun in its place is not spoiled by the second.
func TestReplacedUnderTwoStores(t *testing.T) {
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
				if n, err := s.writer.int(`SELECT count(*) FROM counters`); err != nil || n != want {
					t.Errorf("store %d sees %d rows (%v), want %d", i, n, err, want)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			checkIntegrity(t, path)
			if isThere(path+walSuffix) || isThere(path+shmSuffix) {
				t.Errorf("got files %q", list(t, path))
			}
		})
	}
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
