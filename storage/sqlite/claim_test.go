package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// A refused batch writes nothing to the disk.
func TestRefusedBatchWritesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	s := opened(t, Options{Path: path})
	for _, algorithm := range []limiter.Algorithm{limiter.Sliding, limiter.Fixed, limiter.TokenBucket} {
		l := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 3, Window: time.Minute})
		var claims []storage.Claim
		for k := range uint64(100) {
			claims = append(claims, storage.Claim{ID: storage.LimitID(algorithm), Key: key(k), Limit: l,
				Claim: limiter.Claim{Now: start, Min: 3, Want: 3}})
		}
		grants := make([]limiter.Grant, len(claims))
		for i := range 3 {
			before, log := read(t, path), read(t, path+walSuffix)
			if err := s.Claim(context.Background(), storagetest.At(start), claims, grants); err != nil {
				t.Fatal(err)
			}
			for j := range claims {
				claims[j].Now++
				if refused := grants[j].Refused(claims[j].Claim); refused != (i > 0) {
					t.Fatalf("%v: round %d: refused: %v", algorithm, i, refused)
				}
			}
			if same := before == read(t, path) && log == read(t, path+walSuffix); same != (i > 0) {
				t.Errorf("%v: round %d: files are the same: %v", algorithm, i, same)
			}
		}
	}
}

// If any statement fails, the batch has changed nothing, and the next one works.
func TestFailedStatementChangesNothing(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"BEGIN", "WITH wanted (i, window", "WITH wanted (i, key", "INSERT OR ROLLBACK INTO counters", "INSERT INTO counters", "INSERT INTO buckets", "INSERT INTO limits"} {
		t.Run(prefix, func(t *testing.T) {
			f := new(faults)
			s := opened(t, Options{Path: filepath.Join(t.TempDir(), "tally.db"), connect: f.connect})
			mustFill(t, s, 1000, 5)
			count := func() (n int64) {
				n, err := askWriter(s, `SELECT (SELECT count(*) FROM counters) + (SELECT count(*) FROM buckets)`)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			tellWriter(t, s, `DELETE FROM limits`)
			s.claims.limits.forget()
			before := count()
			f.set(failOnce(prefix, coded(10)))
			err := fill(s, 990, 20) // some of them are there
			if err == nil || errors.Is(err, storage.ErrUnknownOutcome) || errors.Is(err, storage.ErrCorrupt) {
				t.Fatalf("got %v, want an error with a known outcome", err)
			}
			if after := count(); after != before {
				t.Errorf("got %d rows after a failed batch, want %d", after, before)
			}
			mustFill(t, s, 990, 20)
			n, err := askWriter(s, `SELECT count(*) FROM limits`)
			if err != nil || n != 2 {
				t.Errorf("got %d limits (%v), want 2", n, err)
			}
		})
	}
}

func TestFailedCommitHasUnknownOutcome(t *testing.T) {
	t.Parallel()
	f := new(faults)
	s := opened(t, Options{Path: filepath.Join(t.TempDir(), "tally.db"), connect: f.connect})
	f.set(failOnce("COMMIT", coded(10)))
	if err := fill(s, 0, 20); !errors.Is(err, storage.ErrUnknownOutcome) {
		t.Fatalf("got %v, want %v", err, storage.ErrUnknownOutcome)
	}
	mustFill(t, s, 0, 20)
	if n, err := askWriter(s, `SELECT count(*) FROM limits`); err != nil || n != 2 {
		t.Errorf("got %d limits (%v), want 2: no sweep knows the others", n, err)
	}
}

// A transaction whose rollback fails does not stay open.
func TestFailedRollback(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(s *Store) error{
		"claim": func(s *Store) error { return fill(s, 1000, 1) },
		"sweep": func(s *Store) error {
			_, err := s.Sweep(context.Background(), storagetest.At(start))
			return errors.Join(err, fill(s, 1000, 1))
		},
	} {
		t.Run("then a "+name, func(t *testing.T) {
			f := new(faults)
			s := opened(t, Options{Path: filepath.Join(t.TempDir(), "tally.db"), connect: f.connect})
			f.set(func(query string) error {
				if strings.HasPrefix(query, "INSERT") || strings.HasPrefix(query, "ROLLBACK") {
					return coded(10)
				}
				return nil
			})
			for range 2 {
				if err := fill(s, 0, 20); err == nil {
					t.Fatal("got no error")
				}
			}
			f.set(nil)
			if err := next(s); err != nil {
				t.Fatal(err)
			}
			n, err := askWriter(s, `SELECT count(*) FROM counters`)
			if err != nil || n != 1 {
				t.Errorf("got %d rows after failed batches and one of one row (%v)", n, err)
			}
			mustFill(t, s, 0, 20)
		})
	}
}

func TestErrorsOfTheContract(t *testing.T) {
	t.Parallel()
	for c, corrupt := range map[int]bool{
		codeCorrupt: true, codeNotADB: true, codeCorrupt | 1<<8: true, codeConstraint | 6<<8: true,
		codeBusy: false, codeFull: false, codeError: false, 10 | 3<<8: false,
	} {
		if got := errors.Is(wrap("test", coded(c)), storage.ErrCorrupt); got != corrupt {
			t.Errorf("code %d: damage: %v, want %v", c, got, corrupt)
		}
		if !errors.Is(wrap("test", coded(c)), coded(c)) {
			t.Errorf("code %d is lost", c)
		}
	}
	if wrap("test", nil) != nil {
		t.Error("got an error out of nothing")
	}
}

// While another process holds the write lock, a claim fails after the busy timeout and changes
// nothing.
func TestLockedByAnother(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	s := opened(t, Options{Path: path, BusyTimeout: time.Millisecond})
	other := raw(t, path)
	defer other.close()
	mustExec(t, other, `BEGIN IMMEDIATE`)
	if err := fill(s, 0, 1); !isBusy(err) || errors.Is(err, storage.ErrUnknownOutcome) {
		t.Errorf("got %v, want a locked database", err)
	}
	mustExec(t, other, `ROLLBACK`)
	mustFill(t, s, 0, 1)
}

// A full database refuses new rows, stays intact, and works again after a sweep has made room.
func TestMaxSize(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	s := opened(t, Options{Path: path, MaxSize: MinMaxSize})
	var err error
	n := uint64(0)
	for ; err == nil && n < 100_000; n += 1000 {
		err = fill(s, n, 1000)
	}
	if code(err) != codeFull || errors.Is(err, storage.ErrCorrupt) {
		t.Fatalf("after %d keys: got %v, want a full database", n, err)
	}
	if err := s.log.checkpoint(); err != nil {
		t.Fatal(err)
	}
	if size := sizeOf(path); size > MinMaxSize {
		t.Errorf("the file has %d bytes, want at most %d", size, MinMaxSize)
	}
	if _, err := one(t, s, 0); err != nil && code(err) != codeFull {
		t.Errorf("got %v", err)
	}
	late := start + int64(time.Hour)
	for more := true; more; {
		swept, err := s.Sweep(context.Background(), storagetest.At(late))
		if err != nil {
			t.Fatal(err)
		}
		more = swept.More
	}
	mustFill(t, s, 0, 1000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	checkIntegrity(t, path)
}

// A deleted file is not written to any more. A file in its place does not continue it, even with
// the same inode number.
func TestRemovedOrReplacedWhileInUse(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"removed": os.Remove,
		"renamed": func(path string) error { return os.Rename(path, path+".old") },
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600))
		},
		"replaced by a copy": func(path string) error {
			content, err := os.ReadFile(path)
			return errors.Join(err, os.Rename(path, path+".old"), os.WriteFile(path, content, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tally.db")
			s := opened(t, Options{Path: path})
			mustFill(t, s, 0, 1)
			if err := s.log.checkpoint(); err != nil {
				t.Fatal(err)
			}
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			if _, err := one(t, s, 1); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("claim: %v, want an error that names the file", err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			next := opened(t, Options{Path: path})
			if next.Continues(s) {
				t.Error("what is in its place is said to continue it")
			}
			mustFill(t, next, 0, 1)
			if err := next.Close(); err != nil {
				t.Error(err)
			}
			if last := opened(t, Options{Path: path}); !last.Continues(next) || last.Continues(s) {
				t.Errorf("opened again, it continues itself: %v, and the first: %v", last.Continues(next), last.Continues(s))
			}
		})
	}
}
