package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// foldedKeys are enough for a fold to rest.
const foldedKeys = 300

// journaledCharges opens a store in a period and charges keys, which the goroutine of the journal
// folds soon. Rests of folds call rest.
func journaledCharges(t *testing.T, limit limiter.Limit, rest func(*Store)) *Store {
	t.Helper()
	var s *Store
	opened := make(chan struct{})
	s = journaled(t, Options{Path: filepath.Join(t.TempDir(), "tally.db"), rest: func(time.Duration) {
		<-opened
		rest(s)
	}})
	close(opened)
	if s.Period() == 0 {
		t.Skip("there is no journal here")
	}
	s.letFoldsWait(time.Hour) // else one may begin among the claims, and hurry for what follows them
	if _, err := s.Resets(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	claims := make([]storage.Claim, foldedKeys)
	for i := range claims {
		claims[i] = storage.Claim{ID: 1, Key: key(uint64(i)), Limit: limit, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}
	}
	if err := s.Claim(t.Context(), storagetest.At(start), claims, make([]limiter.Grant, foldedKeys)); err != nil {
		t.Fatal(err)
	}
	s.letFoldsWait(-foldEvery) // what is noted is old
	s.periods.wakeKeeper()
	return s
}

// letFoldsWait prevents the goroutine of the journal from folding new records for a time.
func (s *Store) letFoldsWait(d time.Duration) {
	s.folds.patient.lock.Lock()
	defer s.folds.patient.lock.Unlock()
	s.folds.patient.sealedAt = time.Now().Add(d)
}

// Everything that requests wait for in a period works while a fold is in the middle of its
// transaction.
func TestRequestsWaitForNoFold(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 10, Window: time.Hour})
	var once sync.Once
	folding, release := make(chan struct{}), make(chan struct{})
	s := journaledCharges(t, limit, func(s *Store) {
		once.Do(func() {
			s.tx.mu.Lock() // as in the transaction
			defer s.tx.mu.Unlock()
			close(folding)
			<-release
		})
	})
	defer close(release)
	<-folding
	claim := storage.Claim{ID: 1, Key: key(1), Limit: limit, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}
	for name, call := range map[string]func() error{
		"a claim at once": func() error {
			c := claim
			c.Key = key(foldedKeys)
			_, err := claimAtOnce(s, s.Period(), 0, c, limiter.Lease{})
			return err
		},
		"a claim that is granted": func() error {
			grants := make([]limiter.Grant, 1)
			err := s.Claim(ctx, storagetest.At(start), []storage.Claim{claim}, grants)
			if err == nil && grants[0].InUse() != 2 {
				err = errors.New("it didn't count what is being folded")
			}
			return err
		},
		"a claim that is refused": func() error {
			c := claim
			c.Min, c.Want = 20, 20
			return s.Claim(ctx, storagetest.At(start), []storage.Claim{c}, make([]limiter.Grant, 1))
		},
		"the record of a client": func() error {
			return s.Records(ctx, storagetest.At(start), []storage.Client{{Key: key(1)}}, make([]reputation.Record, 1))
		},
		"news of resets": func() error {
			_, err := s.Resets(ctx, 0)
			return err
		},
	} {
		done := make(chan error, 1)
		go func() { done <- call() }()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s waits for the fold", name)
		}
	}
}

// Between the transactions of a fold the write connection is free.
func TestFoldsLetOthersWrite(t *testing.T) {
	t.Parallel()
	limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 10, Window: time.Hour})
	var midway atomic.Int32
	s := journaledCharges(t, limit, func(s *Store) {
		s.tx.mu.Lock() // hangs if the fold holds it
		defer s.tx.mu.Unlock()
		if _, done, err := s.periods.journalStateLocked(); err == nil && done.below > 0 {
			midway.Add(1)
		}
	})
	for s.periods.alone.Load().folded.Load() == 0 {
		runtime.Gosched()
	}
	if n := midway.Load(); n < 3 {
		t.Errorf("the fold was midway in %d rests, want some: %d keys are more than one transaction folds", n, foldedKeys)
	}
}

// Whatever happens during a fold, each record is added to the tables once.
func TestEachRecordIsFoldedOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, algorithm := range []limiter.Algorithm{limiter.Fixed, limiter.TokenBucket} {
		limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 10, Window: 1000 * time.Hour})
		charge := func(s *Store, n, former uint64) error {
			c := storage.Claim{ID: 1, Key: key(n), Limit: limit, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}
			if former > 0 {
				c.Former = key(former) // needs a transaction
			}
			grants := make([]limiter.Grant, 1)
			err := s.Claim(ctx, storagetest.At(start), []storage.Claim{c}, grants)
			if used := grants[0].InUse(); err == nil && n < foldedKeys && used != 2 {
				err = fmt.Errorf("%d of key %d are in use, want 2", used, n)
			}
			return err
		}
		for name, act := range map[string]func(t *testing.T, s *Store) (path string, err error){
			"nothing": func(_ *testing.T, s *Store) (string, error) { return s.options.Path, nil },
			"the process dies": func(t *testing.T, s *Store) (string, error) {
				s.tx.mu.Lock()
				defer s.tx.mu.Unlock()
				return putFiles(t, copyFiles(t, s.options.Path)), nil
			},
			"a transaction": func(_ *testing.T, s *Store) (string, error) { return s.options.Path, charge(s, 1<<20, 1<<21) },
			"another process": func(t *testing.T, s *Store) (string, error) {
				other, err := Open(ctx, Options{Path: s.options.Path})
				if err == nil {
					err = errors.Join(charge(other, 1<<20, 0), other.Close())
				}
				return s.options.Path, err
			},
			"charges of the same keys": func(_ *testing.T, s *Store) (string, error) {
				for n := range uint64(foldedKeys) {
					if err := charge(s, n, 0); err != nil {
						return "", err
					}
				}
				return s.options.Path, nil
			},
		} {
			rests, want := 0, int64(1)
			path, acted := "", make(chan error, 1)
			s := journaledCharges(t, limit, func(s *Store) {
				_, done, err := func() (int64, progress, error) {
					s.tx.mu.Lock()
					defer s.tx.mu.Unlock()
					return s.periods.journalStateLocked()
				}()
				if done.below == 0 && err == nil {
					return
				}
				if rests++; rests == 2 {
					if err == nil {
						path, err = act(t, s)
					}
					acted <- err
				}
			})
			if err := <-acted; err != nil {
				t.Fatalf("%v, %s: %v", algorithm, name, err)
			}
			if name == "charges of the same keys" {
				want = 2
			}
			if err := s.Close(); err != nil {
				t.Errorf("%v, %s: %v", algorithm, name, err)
			}
			again := opened(t, Options{Path: path})
			for n := range uint64(foldedKeys) {
				grants := make([]limiter.Grant, 1)
				err := again.Claim(ctx, storagetest.At(start), []storage.Claim{{ID: 1, Key: key(n), Limit: limit, Claim: limiter.Claim{Now: start}}}, grants)
				if err != nil || grants[0].Used != want {
					t.Fatalf("%v, %s: %d of key %d are in use (%v), want %d", algorithm, name, grants[0].Used, n, err, want)
				}
			}
		}
	}
}

// A loss of power may undo segments whose fold has begun. Later charges are folded completely.
func TestChargesAfterALossOfPowerAreFolded(t *testing.T) {
	t.Parallel()
	limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 10, Window: 1000 * time.Hour})
	type state struct {
		path string
		done progress
	}
	lost, rests := make(chan state, 1), 0
	journaledCharges(t, limit, func(s *Store) {
		if rests++; rests > 50 || len(lost) > 0 {
			return
		}
		s.tx.mu.Lock()
		defer s.tx.mu.Unlock()
		if _, done, err := s.periods.journalStateLocked(); err == nil && done.below > 0 {
			files := copyFiles(t, s.options.Path)
			charges := []byte(files[chargesSuffix])
			clear(charges[256:]) // the table and all records
			files[chargesSuffix] = string(charges)
			lost <- state{putFiles(t, files), done}
		}
	})
	after := <-lost
	s := journaled(t, Options{Path: after.path})
	if s.Period() == 0 {
		t.Fatal("no period has begun")
	}
	claims := make([]storage.Claim, foldedKeys)
	for n := range claims {
		claims[n] = storage.Claim{ID: 1, Key: key(uint64(n)), Limit: limit, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}
	}
	if err := s.Claim(t.Context(), storagetest.At(start), claims, make([]limiter.Grant, foldedKeys)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	again, midway := opened(t, Options{Path: after.path}), 0
	for n := range claims {
		grants := make([]limiter.Grant, 1)
		claims[n].Min, claims[n].Want = 0, 0
		if err := again.Claim(t.Context(), storagetest.At(start), claims[n:n+1], grants); err != nil {
			t.Fatal(err)
		}
		want := int64(1)
		if prefixOf((*[16]byte)(&claims[n].Key)) < after.done.below {
			want, midway = 2, midway+1
		}
		if grants[0].Used != want {
			t.Errorf("%d of key %d are in use, want %d", grants[0].Used, n, want)
		}
	}
	if midway == 0 || midway == foldedKeys {
		t.Errorf("%d of %d keys were folded before, want some", midway, foldedKeys)
	}
}

// Sweeps used to fold the journal before each step until the rows of the first limit were removed,
// so they removed hardly anything while new keys arrived.
func TestSweepsFoldOncePerRound(t *testing.T) {
	t.Parallel()
	limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 10, Window: time.Minute})
	s := journaledCharges(t, limit, func(*Store) {})
	for a := s.periods.alone.Load(); a.folded.Load() == 0 || a.filters.current.Load() == nil; { // else the filter's segments are folded
		runtime.Gosched()
	}
	s.letFoldsWait(time.Hour)
	var before uint32
	for step := range foldedKeys / sweepRows {
		c := storage.Claim{ID: 1, Key: key(0), Limit: limit, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}
		if err := s.Claim(t.Context(), storagetest.At(start), []storage.Claim{c}, make([]limiter.Grant, 1)); err != nil {
			t.Fatal(err)
		}
		swept, err := s.Sweep(t.Context(), storagetest.At(start+int64(10*time.Minute)))
		if err != nil || swept.Rows == 0 {
			t.Fatalf("step %d: %+v, %v, want some rows", step, swept, err)
		}
		after := s.periods.alone.Load().folded.Load()
		if step > 0 && after != before {
			t.Errorf("step %d of a round folds the journal", step)
		}
		before = after
	}
}
