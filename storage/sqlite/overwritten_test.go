//go:build unix

package sqlite

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Charges that somebody overwrites in the journal are not forgotten in silence: claims fail until
// the database is opened again, whoever does that knows that it lacks something, and what is left
// of the journal counts.
func TestOverwrittenJournalIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tally.db")
	s := journaled(t, Options{Path: path})
	if s.Period() == 0 {
		t.Skip("there is no journal here")
	}
	limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 10, Window: time.Hour})
	claim := func(s *Store, n uint64) (limiter.Grant, error) {
		claims := []storage.Claim{{ID: 1, Key: key(n), Limit: limit, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}}
		grants := make([]limiter.Grant, 1)
		err := s.Claim(t.Context(), claims, grants)
		return grants[0], err
	}
	if _, err := claim(s, 1); err != nil { // the limit is known from then on
		t.Fatal(err)
	}
	s.mu.Lock() // so that nothing is folded
	for n := range uint64(3) {
		if _, err := claim(s, 10+n); err != nil {
			t.Fatal(err)
		}
	}
	damaged := overwriteKey(t, path+chargesSuffix, key(11))
	s.mu.Unlock()
	if damaged == 0 {
		t.Fatal("no record was damaged")
	}
	s.mu.Lock()
	_ = s.foldAllLocked() // as the goroutine of the journal does, which nobody hears
	s.mu.Unlock()
	if _, err := claim(s, 1); err == nil {
		t.Error("claims go on though charges are lost")
	}
	_ = s.Close()
	again := journaled(t, Options{Path: path})
	if again.Continues(s) {
		t.Error("the database continues one whose charges were lost")
	}
	for n, want := range map[uint64]int64{10: 2, 11: 1, 12: 2} {
		if grant, err := claim(again, n); err != nil || grant.InUse() != want {
			t.Errorf("key %d has used %d, %v, want %d", n, grant.InUse(), err, want)
		}
	}
}

// overwriteKey overwrites a key in a file, and returns how often it was there.
func overwriteKey(t *testing.T, path string, k storage.Key) (n int) {
	t.Helper()
	contents, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at+len(k) <= len(contents); at += 8 {
		if storage.Key(contents[at:at+len(k)]) == k {
			n++
			if err := writeAt(path, int64(at), make([]byte, len(k))); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}
