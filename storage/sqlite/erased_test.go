package sqlite

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// chargedIn returns how many of the keys from 0 to n-1 are in a file.
func chargedIn(t *testing.T, path string, n int) (found int) {
	t.Helper()
	contents, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if k := key(uint64(i)); bytes.Contains(contents, k[:]) {
			found++
		}
	}
	return found
}

// Keys in the database are no longer in the journal: deleted ones are in no file.
func TestFoldedKeysStayInNoJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	s := journaled(t, Options{Path: path})
	if s.Period() == 0 {
		t.Skip("there is no journal here")
	}
	limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 10, Window: time.Hour})
	charge := func(s *Store, from, to int) {
		claims := make([]storage.Claim, 0, to-from)
		for i := from; i < to; i++ {
			claims = append(claims, storage.Claim{ID: 1, Key: key(uint64(i)), Limit: limit, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}})
		}
		if err := s.Claim(t.Context(), storagetest.At(start), claims, make([]limiter.Grant, len(claims))); err != nil {
			t.Fatal(err)
		}
	}
	const keys = 100
	charge(s, 0, 1) // the limit is known from then on
	s.tx.mu.Lock()  // so that nothing is folded
	charge(s, 0, keys)
	if n := chargedIn(t, path+chargesSuffix, keys); n < keys-1 {
		t.Errorf("%d keys are in the journal before a fold, want %d", n, keys)
	}
	s.tx.mu.Unlock()
	s.tx.mu.Lock()
	err := s.folds.foldAllLocked()
	s.tx.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if n := chargedIn(t, path+chargesSuffix, keys); n != 0 {
		t.Errorf("%d keys are in the journal after a fold", n)
	}
	charge(s, keys, 2*keys)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := chargedIn(t, path+chargesSuffix, 2*keys); n != 0 {
		t.Errorf("%d keys are in the journal after a clean stop", n)
	}
	if n := chargedIn(t, path, 2*keys); n != 2*keys {
		t.Errorf("%d keys are in the database, want %d", n, 2*keys)
	}
}
