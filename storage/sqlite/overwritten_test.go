//go:build unix

package sqlite

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// Overwritten charges in the journal are not forgotten silently: claims fail until the database is
// opened again, which reports the loss, and the rest of the journal counts.
func TestOverwrittenJournalIsTold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	s := journaled(t, Options{Path: path})
	if s.Period() == 0 {
		t.Skip("there is no journal here")
	}
	limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 10, Window: time.Hour})
	claim := func(s *Store, n uint64) (limiter.Grant, error) {
		claims := []storage.Claim{{ID: 1, Key: key(n), Limit: limit, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}}
		grants := make([]limiter.Grant, 1)
		err := s.Claim(t.Context(), storagetest.At(start), claims, grants)
		return grants[0], err
	}
	if _, err := claim(s, 1); err != nil { // the limit is known from then on
		t.Fatal(err)
	}
	s.tx.mu.Lock() // so that nothing is folded
	for n := range uint64(3) {
		if _, err := claim(s, 10+n); err != nil {
			t.Fatal(err)
		}
	}
	damaged := overwriteKey(t, path+chargesSuffix, key(11), 0)
	s.tx.mu.Unlock()
	if damaged == 0 {
		t.Fatal("no record was damaged")
	}
	s.tx.mu.Lock()
	_ = s.folds.foldAllLocked() // as the goroutine of the journal does, which nobody hears
	s.tx.mu.Unlock()
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

// Records that were changed after a crash used to pass for unwritten ones. Each kind of damage is
// reported, with the number of records, and the others count.
func TestRecordsDamagedAfterACrashAreTold(t *testing.T) {
	t.Parallel()
	limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 10, Window: time.Hour})
	claim := func(s *Store, n uint64) limiter.Grant {
		t.Helper()
		grants := make([]limiter.Grant, 1)
		if err := s.Claim(t.Context(), storagetest.At(start), []storage.Claim{{ID: 1, Key: key(n), Limit: limit, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}}, grants); err != nil {
			t.Fatal(err)
		}
		return grants[0]
	}
	path := filepath.Join(t.TempDir(), "tally.db")
	s := journaled(t, Options{Path: path})
	if s.Period() == 0 {
		t.Skip("there is no journal here")
	}
	for s.letFoldsWait(time.Hour); s.periods.alone.Load().filters.current.Load() == nil; { // nothing seals a segment afterwards
		runtime.Gosched()
	}
	claim(s, 1)    // the limit is known from then on
	s.tx.mu.Lock() // so that nothing is folded
	for n := range uint64(4) {
		claim(s, 10+n)
	}
	crashed := copyFiles(t, path)
	s.tx.mu.Unlock()
	for what, c := range map[string]struct {
		damaged []uint64 // keys
		with    byte
	}{
		"nothing": {}, "zeros": {[]uint64{11}, 0}, "others": {[]uint64{11, 13}, 0xa5},
	} {
		var notices []Notice
		after := putFiles(t, crashed)
		used := map[uint64]int64{10: 2, 11: 2, 12: 2, 13: 2}
		for _, n := range c.damaged {
			used[n] = 1
			if overwriteKey(t, after+chargesSuffix, key(n), c.with) == 0 {
				t.Fatalf("%s: no record was damaged", what)
			}
		}
		again := journaled(t, Options{Path: after, Notice: func(n Notice) { notices = append(notices, n) }})
		for n, want := range used {
			if grant := claim(again, n); grant.InUse() != want {
				t.Errorf("%s: key %d has used %d, want %d", what, n, grant.InUse(), want)
			}
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
		total := 0
		for _, n := range notices {
			total += n.Damaged
		}
		if total != len(c.damaged) || len(notices) > 1 {
			t.Errorf("%s: notices are %+v, want %d damaged records", what, notices, len(c.damaged))
		}
	}
}

// A journal whose header was damaged, or that was removed, after a crash used to pass silently for
// a new one.
func TestLostJournalIsTold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	s := journaled(t, Options{Path: path})
	if s.Period() == 0 {
		t.Skip("there is no journal here")
	}
	crashed := copyFiles(t, path)
	for what, c := range map[string]struct {
		damage func(path string) error
		told   int
	}{
		"nothing": {func(string) error { return nil }, 0},
		"zeros":   {func(path string) error { return writeAt(path, 0, make([]byte, 64)) }, 1},
		"removed": {os.Remove, 1},
	} {
		var notices []Notice
		after := putFiles(t, crashed)
		if err := c.damage(after + chargesSuffix); err != nil {
			t.Fatal(err)
		}
		again := journaled(t, Options{Path: after, Notice: func(n Notice) { notices = append(notices, n) }})
		if err := again.Close(); err != nil {
			t.Error(err)
		}
		if len(notices) != c.told || len(notices) == 1 && !notices[0].LostJournal {
			t.Errorf("%s: notices are %+v, want %d", what, notices, c.told)
		}
	}
}

// overwriteKey overwrites a key in a file, and returns the number of occurrences.
func overwriteKey(t *testing.T, path string, k storage.Key, with byte) (n int) {
	t.Helper()
	contents, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at+len(k) <= len(contents); at += 8 {
		if storage.Key(contents[at:at+len(k)]) == k {
			n++
			if err := writeAt(path, int64(at), bytes.Repeat([]byte{with}, len(k))); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}
