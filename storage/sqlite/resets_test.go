package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// standingAt is a clock that stands still at the start.
var standingAt = showing{Wall: start, Steady: 1, Source: storage.Source{1}, Shared: true}

// within returns a term with the present time of the store.
func termOf(t testing.TB, s *Store) *storage.Term {
	t.Helper()
	now, err := s.Time(standingAt, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &storage.Term{Clock: standingAt, Shift: now.Shift, Era: now.Era, Resets: now.Resets}
}

// left returns how many of 10 units per minute a key is granted.
func left(t testing.TB, s *Store, a limiter.Algorithm, n uint64) int64 {
	t.Helper()
	l := newLimit(t, limiter.Params{Algorithm: a, Amount: 10, Window: time.Minute})
	claims := []storage.Claim{{ID: storage.LimitID(a), Key: key(n), Limit: l, Claim: limiter.Claim{Min: 1, Want: 10}}}
	grants := make([]limiter.Grant, 1)
	if err := s.Claim(context.Background(), termOf(t, s), claims, grants); err != nil {
		t.Fatal(err)
	}
	return grants[0].Units
}

// If any statement of a reset fails, all of it has taken effect or nothing, and a repetition does
// the rest, and nothing twice. The same holds for a process that is killed there: uncommitted
// changes are not in the database.
func TestAnyStatementOfAResetMayFail(t *testing.T) {
	t.Parallel()
	full := coded(codeFull)
	for n := 0; ; n++ {
		f := new(faults)
		path := filepath.Join(t.TempDir(), "tally.db")
		s := opened(t, Options{Path: path, connect: f.connect})
		left(t, s, limiter.Sliding, 1)
		left(t, s, limiter.TokenBucket, 1)
		resets := []storage.Reset{
			{ID: 1, Limit: storage.LimitID(limiter.Sliding), Key: key(1)},
			{ID: 2, Limit: storage.LimitID(limiter.TokenBucket), Key: key(1)},
			{ID: 3, Client: true, Key: key(1)},
		}
		term, i, which := termOf(t, s), 0, ""
		f.set(func(query string) error {
			if i++; i-1 != n {
				return nil
			}
			which = query
			return full
		})
		err := s.Reset(context.Background(), term, resets)
		f.set(nil)
		if which == "" {
			if err != nil {
				t.Errorf("without a failure: %v", err)
			}
			return
		}
		if err == nil || s.Close() != nil {
			t.Fatalf("%q failed, and reset or close doesn't say the right thing: %v", which, err)
		}
		s = opened(t, Options{Path: path})
		for i, a := range []limiter.Algorithm{limiter.Sliding, limiter.TokenBucket} {
			if units := left(t, s, a, 1); units != 0 {
				t.Errorf("%q failed: %d units of limit %d were forgotten all the same", which, units, i)
			}
		}
		if known, err := s.Resets(context.Background(), 0); err != nil || known.Newest != 0 || len(known.List) > 0 {
			t.Errorf("%q failed: resets were noted all the same: %+v, %v", which, known, err)
		}
	}
}

// A reset whose commit took effect and failed is repeated without an effect.
func TestResetWithUnknownOutcome(t *testing.T) {
	t.Parallel()
	f := new(faults)
	s := opened(t, Options{Path: filepath.Join(t.TempDir(), "tally.db"), connect: f.connect})
	left(t, s, limiter.Sliding, 1)
	resets := []storage.Reset{{ID: 1, Limit: storage.LimitID(limiter.Sliding), Key: key(1)}}
	term := termOf(t, s)
	f.setAfter(func(query string) error {
		if query == `COMMIT` {
			return coded(codeError)
		}
		return nil
	})
	err := s.Reset(context.Background(), term, resets)
	f.setAfter(nil)
	if !errors.Is(err, storage.ErrUnknownOutcome) {
		t.Fatalf("got %v", err)
	}
	if units := left(t, s, limiter.Sliding, 1); units != 10 {
		t.Fatalf("%d units are left", units)
	}
	if err := s.Reset(context.Background(), termOf(t, s), resets); err != nil || resets[0].Number != 1 {
		t.Errorf("asked for again: %v, %+v", err, resets[0])
	}
	if units := left(t, s, limiter.Sliding, 1); units != 0 {
		t.Errorf("the reset was done twice: %d units are left", units)
	}
}

// A reset finds the rows of a limit in every window, and deletes no others.
func TestResetInManyWindows(t *testing.T) {
	t.Parallel()
	s := opened(t, Options{Path: filepath.Join(t.TempDir(), "tally.db")})
	for window := range 50 {
		for n := range uint64(4) {
			tellWriter(t, s, fmt.Sprintf(`INSERT INTO counters VALUES (1, %d, x'%x', %d, 1), (2, %d, x'%x', 0, 1)`,
				window*7-100, key(n), window, window, key(n)))
		}
	}
	term := termOf(t, s)
	if err := s.Reset(context.Background(), term, []storage.Reset{{ID: 1, Limit: 1, Key: key(1)}}); err != nil {
		t.Fatal(err)
	}
	if n, err := askWriter(s, `SELECT count(*) FROM counters`); err != nil || n != 350 {
		t.Errorf("%d rows are left (%v), want 350", n, err)
	}
	if n, err := askWriter(s, fmt.Sprintf(`SELECT count(*) FROM counters WHERE limit_id = 1 AND key = x'%x'`, key(1))); err != nil || n != 0 {
		t.Errorf("%d rows of the key are left (%v)", n, err)
	}
}

// A look for resets doesn't wait for writers, and claims continue during a read.
func TestResetsWhileAnotherWrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	s := opened(t, Options{Path: path})
	if err := s.Reset(context.Background(), termOf(t, s), []storage.Reset{{ID: 1, Key: key(1)}}); err != nil {
		t.Fatal(err)
	}
	other := raw(t, path)
	mustExec(t, other, `BEGIN IMMEDIATE`)
	if known, err := s.Resets(context.Background(), 0); err != nil || len(known.List) != 1 {
		t.Errorf("got %+v, %v", known, err)
	}
	mustExec(t, other, `ROLLBACK`)
	if err := other.close(); err != nil {
		t.Fatal(err)
	}
}

// A damaged number is used as it is everywhere, so that callers can catch up with it.
func TestDamagedNumberOfResets(t *testing.T) {
	t.Parallel()
	for _, number := range []int64{-5, 1 << 62, 1<<63 - 1, -1 << 63} {
		s := opened(t, Options{Path: filepath.Join(t.TempDir(), "tally.db")})
		tellWriter(t, s, fmt.Sprintf(`UPDATE clock SET resets = %d`, number))
		term := termOf(t, s)
		term.Resets = 0
		clients, records := []storage.Client{{Key: key(1)}}, make([]reputation.Record, 1)
		if err := s.Records(context.Background(), term, clients, records); !errors.Is(err, storage.ErrTerm) {
			t.Errorf("%d: got %v", number, err)
		}
		known, err := s.Resets(context.Background(), 0)
		if err != nil || !known.Lost {
			t.Errorf("%d: got %+v, %v", number, known, err)
		}
		term.Resets = known.Newest
		if err := s.Records(context.Background(), term, clients, records); err != nil {
			t.Errorf("%d: caught up with %d, got %v", number, known.Newest, err)
		}
		if err := s.Reset(context.Background(), termOf(t, s), []storage.Reset{{ID: 1, Key: key(1)}}); err != nil {
			t.Errorf("%d: %v", number, err)
		}
	}
}
