package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// Charges in a truncated journal are not forgotten silently: claims fail until the database is
// opened again, which reports the loss.
func TestCutJournalIsTold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	s := journaled(t, Options{Path: path})
	if s.Period() == 0 {
		t.Skip("there is no journal here")
	}
	limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 10, Window: time.Hour})
	claim := func(s *Store) error {
		claims := []storage.Claim{{ID: 1, Key: key(1), Limit: limit, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}}
		return s.Claim(context.Background(), storagetest.At(start), claims, make([]limiter.Grant, 1))
	}
	if err := claim(s); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path+chargesSuffix, 0); err != nil {
		t.Fatal(err)
	}
	s.tx.mu.Lock()
	_ = s.folds.foldAllLocked() // as the goroutine of the journal does, which nobody hears
	s.periods.endPeriod(s.periods.alone.Load())
	_ = s.folds.foldAllLocked()
	_, _ = s.periods.reopenJournalLocked()
	s.tx.mu.Unlock()
	if err := claim(s); err == nil {
		t.Error("claims go on though charges are lost")
	}
	_ = s.Close()
	again := journaled(t, Options{Path: path})
	if again.Continues(s) {
		t.Error("the database continues one whose charges were lost")
	}
	if err := claim(again); err != nil {
		t.Error(err)
	}
}
