package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// smallDatabase returns the content of an intact database of a few pages.
func smallDatabase(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tally.db")
	s := opened(t, Options{Path: path})
	mustFill(t, s, 0, 150)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return read(t, path)
}

// somePages returns the offsets of pages of a database: the first one and every third, or with
// PROOF all.
func somePages(content string) (offsets []int) {
	step := 3 * pageSize
	if proof.IsOn() {
		step = pageSize
	}
	for at := 0; at < len(content); at += step {
		offsets = append(offsets, at)
	}
	return offsets
}

// outcome is the result of opening a file.
type outcome string

const (
	taken    outcome = "taken as it is"
	setApart outcome = "set aside"
	refused  outcome = "refused"
)

// openFixture opens a file and uses it. Whatever its content, that must work, or be refused without
// a change to the file.
func openFixture(t *testing.T, path string) outcome {
	t.Helper()
	was, became := read(t, path), taken
	o := Options{Path: path, NoJournal: true, Notice: func(n Notice) {
		became = setApart
		if read(t, n.Aside) != was {
			t.Error("what was set aside was changed")
		}
	}}
	s, err := Open(context.Background(), o)
	if errors.Is(err, storage.ErrForeign) {
		if names := list(t, path); read(t, path) != was || len(names) != 1 {
			t.Errorf("a refused file was changed, or something is beside it: %q", names)
		}
		return refused
	}
	if err != nil {
		t.Fatal(err)
	}
	if err = useUp(t, s); err != nil { // damage that shows only now
		if !errors.Is(err, storage.ErrCorrupt) {
			t.Fatal(err)
		}
		_ = s.Close()
		was = read(t, path)
		s = opened(t, o)
		if became != setApart {
			t.Error("damage that was found was not set aside")
		}
		err = useUp(t, s)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		t.Error(err)
	}
	return became
}

// useUp claims every key of [fill] twice, and sweeps. No key may exceed its limit.
func useUp(t *testing.T, s *Store) error {
	t.Helper()
	for id, a := range []limiter.Algorithm{limiter.Sliding, limiter.TokenBucket} {
		l := newLimit(t, limiter.Params{Algorithm: a, Amount: 10, Window: time.Minute})
		var claims []storage.Claim
		for n := range uint64(150) {
			c := storage.Claim{ID: storage.LimitID(id), Key: key(n + 1), Limit: l, Claim: limiter.Claim{Now: start, Min: 1, Want: 10}}
			claims = append(claims, c, c)
		}
		grants := make([]limiter.Grant, len(claims))
		if err := learning(start, func(call *storage.Term) error { return s.Claim(context.Background(), call, claims, grants) }); err != nil {
			return err
		}
		for i := 0; i < len(grants); i += 2 {
			if one, other := grants[i].Units, grants[i+1].Units; one < 0 || other < 0 || one+other > 10 {
				t.Errorf("granted %d and %d of 10", one, other)
			}
		}
	}
	for _, now := range []int64{start, start + int64(48*time.Hour)} {
		for more := true; more; {
			var swept storage.Swept
			err := learning(now, func(call *storage.Term) (err error) {
				swept, err = s.Sweep(context.Background(), call)
				return err
			})
			if err != nil {
				return err
			}
			more = swept.More
		}
	}
	return nil
}

// learning calls do at a time, and once more with what the store's time turned out to be: a flipped bit may be in it,
// and callers learn it.
func learning(now int64, do func(*storage.Term) error) error {
	call := storagetest.At(now)
	err := do(call)
	if errors.Is(err, storage.ErrTerm) {
		call.Shift, call.Era, call.Resets = call.Time.Shift, call.Time.Era, call.Time.Resets
		err = do(call)
	}
	return err
}

// A database that was truncated anywhere is set aside, as long as it identifies itself.
func TestTruncated(t *testing.T) {
	t.Parallel()
	content := smallDatabase(t)
	lengths := map[int]outcome{
		0: taken, 1: refused, 15: refused, 16: refused, 71: refused,
		72: setApart, 99: setApart, 100: setApart, 511: setApart, len(content): taken,
	}
	for i, end := range somePages(content)[1:] {
		for j, n := range []int{end - 1, end, end + 1, end + 777} {
			if i%2 == j%2 || proof.IsOn() {
				lengths[min(n, len(content)-1)] = setApart
			}
		}
	}
	for n, want := range lengths {
		path := filepath.Join(t.TempDir(), "tally.db")
		write(t, path, content[:n])
		if got := openFixture(t, path); got != want {
			t.Errorf("%d of %d bytes: %s, want %s", n, len(content), got, want)
		}
	}
}

// A page of garbage is found when it is read, at the latest.
func TestGarbagePages(t *testing.T) {
	t.Parallel()
	content := smallDatabase(t)
	for name, garbage := range map[string]func(i int) byte{
		"zeros": func(int) byte { return 0 },
		"ones":  func(int) byte { return 0xff },
		"text":  func(i int) byte { return "garbage "[i%8] },
	} {
		t.Run(name, func(t *testing.T) {
			found := 0
			pages := somePages(content)
			for _, page := range pages {
				spoiled := []byte(content)
				for i := range pageSize {
					spoiled[page+i] = garbage(i)
				}
				path := filepath.Join(t.TempDir(), "tally.db")
				write(t, path, string(spoiled))
				got := openFixture(t, path)
				if (got == refused) != (page == 0) {
					t.Errorf("page %d: %s", page/pageSize+1, got)
				}
				if got == setApart {
					found++
				}
			}
			if found < len(pages)/2 {
				t.Errorf("damage was found in %d of %d pages", found, len(pages))
			}
		})
	}
}

// A database with flipped bits is used or set aside.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	r := rand.New(rand.NewPCG(seed, 0))
	content := smallDatabase(t)
	for range proof.Times(15, 1000) {
		flipped := []byte(content)
		for range 1 + r.IntN(20) {
			at := 100 + r.IntN(len(flipped)-100) // whose it is shows in the first 100
			flipped[at] ^= 1 << r.IntN(8)
		}
		path := filepath.Join(t.TempDir(), "tally.db")
		write(t, path, string(flipped))
		if got := openFixture(t, path); got == refused {
			t.Error("refused")
		}
	}
}

// Garbage in the files beside an intact database is no damage: the content of the database is kept.
func TestGarbageBesideTheDatabase(t *testing.T) {
	t.Parallel()
	content := smallDatabase(t)
	header := "\x37\x7f\x06\x83\x00\x2d\xe2\x18\x00\x00\x08\x00" // of a log with pages of 2048 bytes
	for name, beside := range map[string]map[string]string{
		"empty log":         {walSuffix: ""},
		"short log":         {walSuffix: "x"},
		"garbage log":       {walSuffix: strings.Repeat("garbage ", 5000)},
		"log of zeros":      {walSuffix: string(make([]byte, 40_000))},
		"header and no log": {walSuffix: header + strings.Repeat("garbage ", 5000)},
		"stale index":       {shmSuffix: strings.Repeat("garbage ", 4096)},
		"short index":       {shmSuffix: "x"},
		"garbage both":      {walSuffix: strings.Repeat("garbage ", 5000), shmSuffix: strings.Repeat("garbage ", 4096)},
		"empty journal":     {journalSuffix: ""},
		"garbage journal":   {journalSuffix: strings.Repeat("garbage ", 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tally.db")
			write(t, path, content)
			for suffix, garbage := range beside {
				write(t, path+suffix, garbage)
			}
			s := opened(t, Options{Path: path, Notice: func(n Notice) { t.Errorf("got notice %+v", n) }})
			for _, table := range []string{"counters", "buckets"} {
				if n, err := askWriter(s, `SELECT count(*) FROM `+table); err != nil || n != 150 {
					t.Errorf("%d rows in %s (%v), want 150", n, table, err)
				}
			}
			if err := useUp(t, s); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			checkIntegrity(t, path)
		})
	}
}

// A log that was truncated anywhere by a crash has all commits before that point.
func TestTruncatedLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	s := opened(t, Options{Path: path})
	for n := range uint64(20) {
		mustFill(t, s, n, 1)
	}
	content, log := read(t, path), read(t, path+walSuffix)
	last := int64(21)
	for n := len(log); n >= 0; n -= len(log) / 23 {
		crashed := filepath.Join(t.TempDir(), "tally.db")
		write(t, crashed, content)
		write(t, crashed+walSuffix, log[:n])
		s := opened(t, Options{Path: crashed, Notice: func(n Notice) { t.Errorf("got notice %+v", n) }})
		rows, err := askWriter(s, `SELECT count(*) FROM counters`)
		if err != nil || rows > last || n == len(log) && rows != 20 {
			t.Errorf("%d of %d bytes: %d rows after %d with more (%v)", n, len(log), rows, last, err)
		}
		last = rows
		mustFill(t, s, 1000, 1)
		if err := s.Close(); err != nil {
			t.Error(fmt.Errorf("%d bytes: %w", n, err))
		}
		checkIntegrity(t, crashed)
	}
}

// askWriter reads a number through the write connection of a store, which the store's own goroutine
// uses as well.
func askWriter(s *Store, query string) (int64, error) {
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	return s.tx.conn.int(query)
}

// tellWriter executes a statement on that connection.
func tellWriter(t testing.TB, s *Store, query string) {
	t.Helper()
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	mustExec(t, s.tx.conn, query)
}

// claimAtOnce makes one claim at once.
func claimAtOnce(s storage.Local, period uint32, era int64, c storage.Claim, known limiter.Lease) (limiter.Grant, error) {
	claims := []storage.KnownClaim{{Claim: c, Known: known}}
	if err := s.ClaimAtOnce(period, era, claims); err != nil {
		return limiter.Grant{}, err
	}
	if !claims[0].Done {
		return limiter.Grant{}, storage.ErrNotAtOnce
	}
	return claims[0].Grant, nil
}
