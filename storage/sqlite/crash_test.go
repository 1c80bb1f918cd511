package sqlite

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// crashKeys is the number of keys in the tests of crashes.
const crashKeys = 5

type crashCounts [crashKeys]int64

// crash has the files that a killed process leaves.
type crash struct {
	files       map[string]string // by suffix
	least, most crashCounts       // what must be in use, and what may be
}

// crashes charges keys of a database, and copies its files at points at which a process may die.
type crashes struct {
	path   string
	faults faults
	rand   *rand.Rand
	limit  limiter.Limit

	mu           sync.Mutex
	asked, acked crashCounts // units

	copying sync.Mutex
	taken   []crash
	off     bool // the database file is being written
	points  int
}

// copyFiles returns the files of a database, except for the index, which a crash doesn't need.
func copyFiles(t testing.TB, path string) map[string]string {
	files := make(map[string]string)
	for _, suffix := range []string{"", walSuffix, chargesSuffix} {
		if exists(path + suffix) {
			files[suffix] = read(t, path+suffix)
		}
	}
	return files
}

// putFiles writes files to a new place, and returns the path of the database.
func putFiles(t testing.TB, files map[string]string) string {
	path := filepath.Join(t.TempDir(), "tally.db")
	for suffix, content := range files {
		write(t, path+suffix, content)
	}
	return path
}

// take copies the present files. Claims continue.
func (cr *crashes) take(t *testing.T) {
	cr.copying.Lock()
	defer cr.copying.Unlock()
	cr.takeLocked(t)
}

func (cr *crashes) takeLocked(t *testing.T) {
	if cr.off {
		return
	}
	c := crash{least: cr.now(&cr.acked)}
	c.files = copyFiles(t, cr.path)
	c.most = cr.now(&cr.asked)
	cr.taken = append(cr.taken, c)
}

// at makes copies at some of the statements that end a fold.
func (cr *crashes) at(t *testing.T, query string) {
	if !strings.HasPrefix(query, "COMMIT") && !strings.HasPrefix(query, "UPDATE journal") {
		return
	}
	cr.copying.Lock()
	defer cr.copying.Unlock()
	if cr.points++; cr.points%7 == 0 {
		cr.takeLocked(t)
	}
}

func (cr *crashes) now(counts *crashCounts) crashCounts {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	return *counts
}

func (cr *crashes) count(counts *crashCounts, key int, units int64) {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	counts[key] += units
}

func (cr *crashes) claim(t *testing.T, s *Store) {
	k, units := cr.rand.IntN(crashKeys), 1+cr.rand.Int64N(3)
	c := storage.Claim{ID: 7, Key: key(uint64(k)), Limit: cr.limit, Claim: limiter.Claim{Now: start, Min: units, Want: units}}
	cr.count(&cr.asked, k, units)
	period, grants := s.Period(), make([]limiter.Grant, 1)
	if err := s.Claim(context.Background(), storagetest.At(start), []storage.Claim{c}, grants); err != nil || grants[0].Units != units {
		t.Errorf("granted %+v (%v), want %d", grants[0], err, units)
		return
	}
	cr.count(&cr.acked, k, units)
	for range cr.rand.IntN(6) {
		cr.count(&cr.asked, k, units)
		grant, err := claimAtOnce(s, period, 0, c, grants[0].Lease)
		if err != nil {
			cr.count(&cr.asked, k, -units)
			return
		}
		cr.count(&cr.acked, k, grant.Units)
		grants[0] = grant
		if cr.rand.IntN(6) == 0 {
			s.tx.mu.Lock() // no fold ends between the copies
			cr.take(t)
			s.tx.mu.Unlock()
		}
	}
}

// inUse returns the units in use of each key.
func inUse(t *testing.T, s storage.Store, limit limiter.Limit) (used crashCounts) {
	t.Helper()
	for k := range used {
		grants := make([]limiter.Grant, 1)
		err := s.Claim(context.Background(), storagetest.At(start), []storage.Claim{{ID: 7, Key: key(uint64(k)), Limit: limit, Claim: limiter.Claim{Now: start}}}, grants)
		if err != nil {
			t.Fatal(err)
		}
		used[k] = grants[0].Used
	}
	return used
}

// recover opens the files of a crash, and crashes during that, repeatedly. Each charge must be
// found once each time.
func (c crash) recover(t *testing.T, limit limiter.Limit, r *rand.Rand) {
	t.Helper()
	files, found := c.files, crashCounts{}
	for try := range 3 {
		path, next := putFiles(t, files), files
		f, points := new(faults), 1+r.IntN(6)
		f.setAfter(func(string) error {
			if points--; points == 0 {
				next = copyFiles(t, path) // it dies here
			}
			return nil
		})
		s := journaled(t, Options{Path: path, connect: f.connect, NoJournal: try > 0})
		f.setAfter(nil)
		used := inUse(t, s, limit)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if try == 0 {
			found = used
		}
		for k := range used {
			if used[k] < c.least[k] || used[k] > c.most[k] || used[k] != found[k] {
				t.Fatalf("opened %d times: %d of key %d are in use, and %d were before; %d were granted, %d asked for",
					try+1, used[k], k, found[k], c.least[k], c.most[k])
			}
		}
		files = next
	}
}

// A process dies at any point: after a charge, during a fold, or during a hand-over. The next
// process that opens the database finds each granted charge exactly once.
func TestCrashPoints(t *testing.T) {
	t.Parallel()
	crashStep := 3 // of these is recovered from
	if proof.IsOn() {
		crashStep = 1
	}
	seeds := uint64(proof.Times(2, 200))
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		w := &crashes{path: filepath.Join(t.TempDir(), "tally.db"), rand: rand.New(rand.NewPCG(seed, 0)),
			limit: newLimit(t, limiter.Params{Algorithm: []limiter.Algorithm{limiter.Fixed, limiter.TokenBucket}[seed%2], Amount: 1 << 40, Window: time.Hour})}
		o := Options{Path: w.path, connect: w.faults.connect, journalSizes: []journalSize{{4, 8}}}
		s := journaled(t, o)
		if s.Period() == 0 {
			t.Skip("there is no journal here")
		}
		atQuery := func(query string) error { w.at(t, query); return nil }
		w.faults.set(atQuery)
		w.faults.setAfter(atQuery)
		for range 60 {
			w.claim(t, s)
			if w.rand.IntN(15) == 0 { // another one takes over
				other := journaled(t, o)
				w.claim(t, s)
				w.claim(t, other)
				w.take(t)
				w.closeAll(t, s, other)
				s = journaled(t, o)
			}
		}
		w.closeAll(t, s)
		w.take(t)
		if len(w.taken) < 10 {
			t.Fatalf("seed %d: only %d crashes", seed, len(w.taken))
		}
		for i := int(seed) % crashStep; i < len(w.taken); i += crashStep {
			w.taken[i].recover(t, w.limit, w.rand)
		}
	}
}

// closeAll closes stores. This moves the log to the database, which must not be copied meanwhile.
func (cr *crashes) closeAll(t *testing.T, stores ...*Store) {
	cr.setOff(true)
	defer cr.setOff(false)
	for _, s := range stores {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func (cr *crashes) setOff(off bool) {
	cr.copying.Lock()
	defer cr.copying.Unlock()
	cr.off = off
}

// chargeAtOnce charges a key a number of times in a period, and returns the files before and after
// the last one.
func chargeAtOnce(t *testing.T, s *Store, limit limiter.Limit, times int) (before, after map[string]string) {
	t.Helper()
	if s.Period() == 0 {
		t.Skip("there is no journal here")
	}
	c := storage.Claim{ID: 7, Key: key(0), Limit: limit, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}
	grants := make([]limiter.Grant, 1)
	if err := s.Claim(context.Background(), storagetest.At(start), []storage.Claim{c}, grants); err != nil {
		t.Fatal(err)
	}
	s.tx.mu.Lock() // nothing is folded meanwhile
	defer s.tx.mu.Unlock()
	for range times - 1 {
		before = copyFiles(t, s.options.Path)
		grant, err := claimAtOnce(s, s.Period(), 0, c, grants[0].Lease)
		if err != nil {
			t.Fatal(err)
		}
		grants[0] = grant
	}
	return before, copyFiles(t, s.options.Path)
}

// A record that was written in part doesn't count, whichever part that is. Those before it count.
func TestTornRecords(t *testing.T) {
	t.Parallel()
	limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 100, Window: time.Hour})
	s := journaled(t, Options{Path: filepath.Join(t.TempDir(), "tally.db"), journalSizes: []journalSize{{4, 64}}})
	before, after := chargeAtOnce(t, s, limit, 4)
	old, full := before[chargesSuffix], after[chargesSuffix]
	var words []int // that the last record has changed
	for i := 0; i < len(full); i += 8 {
		if old[i:i+8] != full[i:i+8] {
			words = append(words, i)
		}
	}
	if len(words) < 2 {
		t.Fatalf("a record has changed %d words", len(words))
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range proof.Times(10, 20) {
		torn, whole := []byte(old), true
		for _, i := range words {
			if r.IntN(3) > 0 {
				copy(torn[i:i+8], full[i:])
			} else {
				whole = false
			}
		}
		after[chargesSuffix] = string(torn)
		want := crashCounts{3}
		if whole {
			want[0] = 4
		}
		crash{files: after, least: want, most: want}.recover(t, limit, r)
	}
}

// Records in other places don't count: nothing is counted twice.
func TestReorderedRecords(t *testing.T) {
	t.Parallel()
	const header, size, records = 4096, 64, 10
	limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 100, Window: time.Hour})
	s := journaled(t, Options{Path: filepath.Join(t.TempDir(), "tally.db"), journalSizes: []journalSize{{4, 64}}})
	_, files := chargeAtOnce(t, s, limit, records)
	r := rand.New(rand.NewPCG(2, 2))
	for range proof.Times(6, 10) {
		moved, full := []byte(files[chargesSuffix]), files[chargesSuffix]
		from, to := r.IntN(4*64)*size+header, r.IntN(4*64)*size+header
		copy(moved[from:], full[to:to+size])
		copy(moved[to:], full[from:from+size])
		c := crash{files: map[string]string{"": files[""], walSuffix: files[walSuffix], chargesSuffix: string(moved)}}
		c.least[0], c.most[0] = records-2, records
		c.recover(t, limit, r)
	}
}

// A fold that fails at any point changes no counts, and is repeated.
func TestFoldsThatFail(t *testing.T) {
	t.Parallel()
	limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 100, Window: time.Hour})
	for _, statement := range []string{"BEGIN", "INSERT INTO counters", "UPDATE journal SET folded", "COMMIT"} {
		f := new(faults)
		s := journaled(t, Options{Path: filepath.Join(t.TempDir(), "tally.db"), connect: f.connect})
		chargeAtOnce(t, s, limit, 4)
		fold := func() error {
			s.tx.mu.Lock() // nobody else folds the last charge
			defer s.tx.mu.Unlock()
			c := storage.Claim{ID: 7, Key: key(0), Limit: limit, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}
			if _, err := claimAtOnce(s, s.Period(), 0, c, limiter.Lease{At: limit.Slot(start), Used: 4}); err != nil {
				t.Fatal(err)
			}
			f.set(failOnce(statement, coded(codeBusy)))
			defer f.set(nil)
			return s.folds.foldAllLocked()
		}
		if err := fold(); err == nil {
			t.Errorf("%s: the fold did not fail", statement)
		}
		if used := inUse(t, s, limit); used[0] != 5 {
			t.Errorf("%s: %d are in use after a fold that failed, want 5", statement, used[0])
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		again := opened(t, Options{Path: s.options.Path})
		if n, err := askWriter(again, `SELECT sum(used) FROM counters`); err != nil || n != 5 {
			t.Errorf("%s: %d units are in the tables (%v), want 5", statement, n, err)
		}
	}
}

// A closed store has left nothing in its journal, and everything in its tables.
func TestNothingIsPendingAfterClose(t *testing.T) {
	t.Parallel()
	limit := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 100, Window: time.Hour})
	s := journaled(t, Options{Path: filepath.Join(t.TempDir(), "tally.db")})
	chargeAtOnce(t, s, limit, 5)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f := new(faults)
	f.set(func(query string) error {
		if strings.HasPrefix(query, "UPDATE journal SET folded") {
			t.Error("something was left to be folded")
		}
		return nil
	})
	again := opened(t, Options{Path: s.options.Path, connect: f.connect})
	if n, err := askWriter(again, `SELECT sum(used) FROM counters`); err != nil || n != 5 {
		t.Errorf("%d units are in the tables (%v), want 5", n, err)
	}
	if used := inUse(t, again, limit); used[0] != 5 {
		t.Errorf("%d are in use, want 5", used[0])
	}
}
