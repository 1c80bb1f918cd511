package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
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
	if err := s.Claim(t.Context(), claims, make([]limiter.Grant, foldedKeys)); err != nil {
		t.Fatal(err)
	}
	s.letFoldsWait(-foldEvery) // what is noted is old
	s.wakeKeeper()
	return s
}

// letFoldsWait has the goroutine of the journal fold nothing that is new for a time.
func (s *Store) letFoldsWait(d time.Duration) {
	s.patient.lock.Lock()
	defer s.patient.lock.Unlock()
	s.patient.sealedAt = time.Now().Add(d)
}

// Whatever requests wait for in a period is done while a fold is in the middle of its transaction.
func TestRequestsWaitForNoFold(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 10, Window: time.Hour})
	var once sync.Once
	folding, release := make(chan struct{}), make(chan struct{})
	s := journaledCharges(t, limit, func(*Store) {
		once.Do(func() { close(folding) })
		<-release
	})
	defer close(release)
	<-folding
	claim := storage.Claim{ID: 1, Key: key(1), Limit: limit, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}
	for name, call := range map[string]func() error{
		"a claim at once": func() error {
			c := claim
			c.Key = key(foldedKeys)
			_, err := s.ClaimAtOnce(s.Period(), 0, c, limiter.Lease{})
			return err
		},
		"a claim that is granted": func() error {
			grants := make([]limiter.Grant, 1)
			err := s.Claim(ctx, []storage.Claim{claim}, grants)
			if err == nil && grants[0].InUse() != 2 {
				err = errors.New("it didn't count what is being folded")
			}
			return err
		},
		"a claim that is refused": func() error {
			c := claim
			c.Min, c.Want = 20, 20
			return s.Claim(ctx, []storage.Claim{c}, make([]limiter.Grant, 1))
		},
		"the record of a client": func() error {
			return s.Records(ctx, []storage.Client{{Key: key(1)}}, start, make([]reputation.Record, 1))
		},
		"news of resets": func() error {
			_, err := s.Resets(ctx, 0)
			return err
		},
	} {
		done := make(chan error, 1)
		go func() { done <- call() }()
		for answered := false; !answered; runtime.Gosched() {
			select {
			case err := <-done:
				if answered = true; err != nil {
					t.Errorf("%s: %v", name, err)
				}
			default:
				if s.mu.wanted() {
					t.Fatalf("%s waits for the fold", name)
				}
			}
		}
	}
}
