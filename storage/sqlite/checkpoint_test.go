package sqlite

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// The goroutine runs a checkpoint on its own connection when the log is long enough.
func TestCheckpointWhenDue(t *testing.T) {
	t.Parallel()
	f, ran := new(faults), make(chan struct{}, 100)
	s := opened(t, Options{Path: filepath.Join(t.TempDir(), "tally.db"), connect: f.connect})
	f.set(func(query string) error {
		if strings.HasPrefix(query, "PRAGMA wal_checkpoint(PASSIVE)") {
			ran <- struct{}{}
		}
		return nil
	})
	mustFill(t, s, 0, checkpointRows)
	<-ran
}

// After a restart of the log, claims wait for locks as long as before.
func TestClaimsWaitForLocksAfterACheckpoint(t *testing.T) {
	t.Parallel()
	s := opened(t, Options{Path: filepath.Join(t.TempDir(), "tally.db"), BusyTimeout: time.Minute})
	mustFill(t, s, 0, 1)
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	if err := s.log.reuseLocked(); err != nil {
		t.Fatal(err)
	}
	if ms, err := s.tx.conn.int(`PRAGMA busy_timeout`); err != nil || ms != 60_000 {
		t.Errorf("a claim waits for %d ms (%v), want a minute", ms, err)
	}
}

// Swept rows are not left in the file.
func TestSweptKeysAreGone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	s := opened(t, Options{Path: path})
	mustFill(t, s, 0, 10)
	name := key(5)
	for _, there := range []bool{true, false} {
		if err := s.log.checkpoint(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(read(t, path), string(name[:])); got != there {
			t.Errorf("the name of a key is in the file: %v, want %v", got, there)
		}
		if _, err := s.Sweep(context.Background(), storagetest.At(start+int64(time.Hour))); err != nil {
			t.Fatal(err)
		}
	}
}

// The log stays bounded while others read and write during every copy, so that no copy is complete,
// and nothing in it is lost.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	const maxWAL, rows, rounds = 1 << 17, 150, 8
	f, path := new(faults), filepath.Join(t.TempDir(), "tally.db")
	s := opened(t, Options{Path: path, connect: f.connect, maxWAL: maxWAL})
	other, reader := opened(t, Options{Path: path}), raw(t, path)
	mustFill(t, s, 0, rows)
	round, others := sizeOf(path+walSuffix), uint64(0)
	f.set(func(query string) error {
		switch query {
		case `PRAGMA wal_checkpoint(PASSIVE)`:
			if err := reader.exec(`BEGIN; SELECT count(*) FROM counters`); err != nil {
				return err
			}
			mustFill(t, other, rows+others, 1) // behind what the reader sees, where no copy goes
			others++
		case `PRAGMA page_size`: // it is asked for after the copy
			return reader.exec(`COMMIT`)
		}
		return nil
	})
	for range rounds {
		mustFill(t, s, 0, rows)
		if err := s.log.checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	if size, most := sizeOf(path+walSuffix), maxWAL+2*round; size > most {
		t.Errorf("the log has %d bytes, want at most %d", size, most)
	}
	want := rows*(rounds+1) + int64(others)
	if n, err := askWriter(s, `SELECT sum(used) FROM counters`); err != nil || n != want {
		t.Errorf("%d units are used (%v), want %d", n, err, want)
	}
}

// Expired rows free their pages, and disk space.
func TestSweepShrinksTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	s := opened(t, Options{Path: path})
	mustFill(t, s, 0, 8_000)
	if err := s.log.checkpoint(); err != nil {
		t.Fatal(err)
	}
	full, err := s.Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		swept, err := s.Sweep(context.Background(), storagetest.At(start+int64(48*time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		more = swept.More
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if size := sizeOf(path); size > full.Bytes/4 {
		t.Errorf("the file has %d bytes when empty, of %d", size, full.Bytes)
	}
	checkIntegrity(t, path)
}

// Freeing disk space moves other pages, which the log must hold.
func TestCheckpointWhileShrinking(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tally.db")
	s := opened(t, Options{Path: path})
	mustFill(t, s, 0, 16_000)
	late := start + int64(48*time.Hour)
	s.tx.mu.Lock()
	for s.sweeping.phase < 3 { // all rows go
		s.tx.mu.Unlock()
		if _, err := s.Sweep(context.Background(), storagetest.At(late)); err != nil {
			t.Fatal(err)
		}
		s.tx.mu.Lock()
	}
	s.log.unsynced = 0
	s.tx.mu.Unlock()
	var asked int64
	for more := true; more; {
		swept, err := s.Sweep(context.Background(), storagetest.At(late))
		if err != nil {
			t.Fatal(err)
		}
		s.tx.mu.Lock()
		asked = max(asked, s.log.unsynced)
		s.tx.mu.Unlock()
		more = swept.More
	}
	if asked < vacuumPages {
		t.Errorf("%d pages count for the log, of %d at a time", asked, vacuumPages)
	}
}

// Random calls on several handles leave an intact file, all of whose content is accounted for.
func TestIntegrityAfterRandomWork(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	r := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "tally.db")
	handles := []*Store{opened(t, Options{Path: path, maxWAL: 1 << 16}), opened(t, Options{Path: path, Synchronous: Full})}
	now := start
	for range 150 {
		i := r.IntN(len(handles))
		now += r.Int64N(int64(10 * time.Second))
		switch r.IntN(12) {
		case 0:
			if err := handles[i].Close(); err != nil {
				t.Fatal(err)
			}
			handles[i] = opened(t, Options{Path: path, maxWAL: 1 << 16})
		case 1:
			if err := handles[i].log.checkpoint(); err != nil {
				t.Fatal(err)
			}
		case 2, 3:
			if _, err := handles[i].Sweep(context.Background(), storagetest.At(now)); err != nil {
				t.Fatal(err)
			}
		default:
			claims := make([]storage.Claim, 1+r.IntN(200))
			for j := range claims {
				algorithm := limiter.Algorithm(r.IntN(3))
				claims[j] = storage.Claim{ID: storage.LimitID(algorithm), Key: key(r.Uint64N(1000)),
					Limit: newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 5, Window: time.Minute}),
					Claim: limiter.Claim{Now: now, Min: 1, Want: 1 + r.Int64N(3)}}
			}
			if err := handles[i].Claim(context.Background(), storagetest.At(now), claims, make([]limiter.Grant, len(claims))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, s := range handles {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	checkIntegrity(t, path)
}
