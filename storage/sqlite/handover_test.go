package sqlite

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/journal"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// Claims under way are answered when another process opens the database. The units that they give
// back are given back at most once.
func TestClaimsAreAnsweredWhenAnotherComes(t *testing.T) {
	t.Parallel()
	ctx, path, f := context.Background(), filepath.Join(t.TempDir(), "tally.db"), new(faults)
	s, err := Open(ctx, Options{Path: path, connect: f.connect})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Period() == 0 {
		t.Skip("there is no journal here")
	}
	limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 10, Window: time.Hour})
	claim := func(store *Store, c limiter.Claim) limiter.Grant {
		t.Helper()
		c.Now = start
		grants := make([]limiter.Grant, 1)
		if err := store.Claim(ctx, storagetest.At(start), []storage.Claim{{ID: 1, Key: key(1), Limit: limit, Claim: c}}, grants); err != nil {
			t.Fatal(err)
		}
		return grants[0]
	}
	held := claim(s, limiter.Claim{Min: 3, Want: 3}).Lease
	held.Units = 2 // and one is spent

	var comes *journal.Journal
	var once sync.Once
	f.setAfter(func(query string) (err error) {
		if strings.HasPrefix(query, "ROLLBACK") { // it has read, and not charged yet
			once.Do(func() {
				comes, err = journal.Open(ctx, journal.Options{Path: path + chargesSuffix, Origin: s.place.origin})
			})
		}
		return err
	})
	if g := claim(s, limiter.Claim{Min: 20, Want: 20, Return: held}); g.Units != 0 {
		t.Errorf("granted %d of 10", g.Units)
	}
	f.setAfter(nil)
	if comes == nil || s.Period() != 0 {
		t.Fatal("the claim did not read in a period, or that goes on")
	}
	defer comes.Close()
	if g := claim(opened(t, Options{Path: path}), limiter.Claim{Min: 1, Want: 10}); g.Units < 7 || g.Units > 9 {
		t.Errorf("%d of 10 are left; 1 was spent, and 2 were given back once or are lost", g.Units)
	}
}

// A claim that has read in a period charges nothing in a later one, because others have charged in
// between.
func TestClaimsEndWithTheirPeriod(t *testing.T) {
	t.Parallel()
	ctx, path, f := context.Background(), filepath.Join(t.TempDir(), "tally.db"), new(faults)
	s := journaled(t, Options{Path: path, connect: f.connect})
	if s.Period() == 0 {
		t.Skip("there is no journal here")
	}
	limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 10, Window: time.Hour})
	claim := func(store *Store, units int64) int64 {
		c := storage.Claim{ID: 1, Key: key(1), Limit: limit, Claim: limiter.Claim{Now: start, Min: units, Want: units}}
		grants := make([]limiter.Grant, 1)
		if err := store.Claim(ctx, storagetest.At(start), []storage.Claim{c}, grants); err != nil {
			t.Error(err)
		}
		return grants[0].Units
	}
	claim(s, 1)
	s.letFoldsWait(time.Hour) // the goroutine of the journal must not wait for the claim below, which waits for it
	s.tx.mu.Lock()
	if err := s.folds.foldAllLocked(); err != nil {
		t.Error(err)
	}
	s.tx.mu.Unlock()
	before := s.Period()
	comeAndGo := func() error {
		other, err := Open(ctx, Options{Path: path})
		if err != nil {
			return err
		}
		if claim(other, 9) != 9 {
			t.Error("9 of 10 were not there for the other one")
		}
		if err := other.Close(); err != nil {
			return err
		}
		s.periods.endPeriod(s.periods.alone.Load())
		for s.Period() == before || s.Period() == 0 {
			time.Sleep(time.Millisecond) // the goroutine of the journal begins another
		}
		return nil
	}
	var once sync.Once
	f.setAfter(func(query string) (err error) {
		if strings.HasPrefix(query, "ROLLBACK") { // it has read, and not charged yet
			once.Do(func() { err = comeAndGo() })
		}
		return err
	})
	if granted := claim(s, 1); granted != 0 {
		t.Errorf("11 of 10 were granted")
	}
	if s.Period() == before {
		t.Error("the period did not end")
	}
}
