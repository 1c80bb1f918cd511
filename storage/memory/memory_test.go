package memory

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

func TestConformance(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storage.Opener { return New().Opener(Options{}) })
}

var start = time.Date(2026, 11, 21, 14, 15, 16, 123_456_789, time.UTC).UnixNano()

func key(n uint64) (k storage.Key) {
	binary.BigEndian.PutUint64(k[:], (n+1)*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(k[8:], n)
	return k
}

func newLimit(t testing.TB, p limiter.Params) limiter.Limit {
	t.Helper()
	l, err := limiter.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// opened opens a store that the test need not close.
func opened(t testing.TB, db *Database, o Options) storage.Store {
	t.Helper()
	s, err := db.Opener(o)(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// claim claims a whole limit, and returns the granted units.
func claim(s storage.Store, l limiter.Limit, k storage.Key, now int64) (int64, error) {
	grants := make([]limiter.Grant, 1)
	claims := []storage.Claim{{ID: 1, Key: k, Limit: l, Claim: limiter.Claim{Now: now, Min: 1, Want: l.Capacity()}}}
	err := s.Claim(context.Background(), storagetest.At(now), claims, grants)
	return grants[0].Units, err
}

// punish commits an offense that is remembered for hours.
func punish(s storage.Store, k storage.Key, now int64) error {
	o := storage.Offense{Client: storage.Client{Key: k}, Offense: reputation.Offense{
		Violation: reputation.Violation{At: now, Reason: reputation.Trapped}, Points: 25,
	}}
	return s.Punish(context.Background(), storagetest.At(now), []storage.Offense{o}, make([]reputation.Record, 1))
}

func sweepAll(t testing.TB, s storage.Store, term *storage.Term) {
	t.Helper()
	for more := true; more; {
		swept, err := s.Sweep(context.Background(), term)
		if err != nil {
			t.Fatal(err)
		}
		more = swept.More
	}
}

// A full database forgets nothing that counts, grants nothing to new keys, and is usable again
// after a sweep has made room.
func TestFull(t *testing.T) {
	db := New()
	s := opened(t, db, Options{MaxSize: MinMaxSize})
	l := newLimit(t, limiter.Params{Amount: 3, Window: time.Minute})
	keys := uint64(0)
	for ; ; keys++ {
		if _, err := claim(s, l, key(keys), start); err != nil {
			break
		}
	}
	if stats, err := s.Stats(context.Background()); err != nil || stats.Bytes < MinMaxSize || stats.Bytes > MinMaxSize+1000 {
		t.Errorf("a full database has %d bytes (%v), want about %d", stats.Bytes, err, MinMaxSize)
	}
	if err := punish(s, key(1), start); err == nil {
		t.Error("an offense was taken by a full database")
	}
	larger := opened(t, db, Options{})
	for n := range keys {
		if units, err := claim(larger, l, key(n), start+int64(time.Second)); err != nil || units != 0 {
			t.Fatalf("key %d of %d was granted %d units (%v) that it had already", n, keys, units, err)
		}
	}
	later := start + int64(time.Hour)
	sweepAll(t, s, storagetest.At(later))
	if units, err := claim(s, l, key(0), later); err != nil || units != 3 {
		t.Errorf("after a sweep %d units were granted (%v), want 3", units, err)
	}
}

// A claim that finds the database full deletes expired entries itself.
func TestFullOfExpired(t *testing.T) {
	s := opened(t, New(), Options{MaxSize: MinMaxSize})
	l := newLimit(t, limiter.Params{Amount: 3, Window: time.Minute})
	var err error
	for n := uint64(0); err == nil; n++ {
		_, err = claim(s, l, key(n), start)
	}
	if units, err := claim(s, l, key(1<<40), start+int64(time.Hour)); err != nil || units != 3 {
		t.Errorf("%d units were granted (%v), want 3", units, err)
	}
}

// Refused keys take no memory.
func TestRefusedKeysTakeNothing(t *testing.T) {
	db := New()
	s := opened(t, db, Options{})
	for _, algorithm := range []limiter.Algorithm{limiter.Sliding, limiter.Fixed, limiter.TokenBucket} {
		c := storage.Claim{ID: 1, Key: key(1), Former: key(2), Limit: newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 3, Window: time.Minute}),
			Claim: limiter.Claim{Now: start, Min: 4, Want: 4}}
		if err := s.Claim(context.Background(), storagetest.At(c.Now), []storage.Claim{c}, make([]limiter.Grant, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if db.bytes != 0 {
		t.Errorf("%d bytes are taken", db.bytes)
	}
}

// After any calls, the bytes are those of the entries, and a late sweep deletes everything.
func TestBytesAddUp(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r, db := rand.New(rand.NewPCG(seed, 0)), New()
	s := opened(t, db, Options{})
	limits := []limiter.Limit{
		newLimit(t, limiter.Params{Amount: 100, Window: 10 * time.Second}),
		newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 100, Window: time.Minute}),
		newLimit(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 100, Window: time.Minute}),
	}
	now := start
	for range 3000 {
		now += r.Int64N(int64(time.Second))
		id := r.IntN(len(limits))
		c := storage.Claim{ID: storage.LimitID(id), Key: key(r.Uint64N(50)), Limit: limits[id],
			Claim: limiter.Claim{Now: now, Min: 1, Want: 1 + r.Int64N(5), Ahead: r.Int64N(5), Extra: 3}}
		client := storage.Client{Key: c.Key}
		if r.IntN(4) == 0 {
			c.Former = key(r.Uint64N(50))
			client.Former = c.Former
		}
		if err := s.Claim(context.Background(), storagetest.At(c.Now), []storage.Claim{c}, make([]limiter.Grant, 1)); err != nil {
			t.Fatal(err)
		}
		if err := punish(s, key(r.Uint64N(50)), now); err != nil {
			t.Fatal(err)
		}
		if err := s.Records(context.Background(), storagetest.At(now), []storage.Client{client}, make([]reputation.Record, 1)); err != nil {
			t.Fatal(err)
		}
		if r.IntN(5) == 0 {
			if _, err := s.Sweep(context.Background(), storagetest.At(now)); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := db.bytes, counted(db); got != want {
			t.Fatalf("%d bytes are said to be taken, the entries take %d", got, want)
		}
	}
	sweepAll(t, s, storagetest.At(now))                          // to the end, wherever the last one has stopped
	sweepAll(t, s, storagetest.At(now+int64(1000*24*time.Hour))) // when no record says anything
	if db.bytes != 0 || counted(db) != 0 {
		t.Errorf("%d bytes are left, %d of entries", db.bytes, counted(db))
	}
}

func counted(db *Database) (bytes int64) {
	for i := range db.shards {
		for _, ref := range db.shards[i].states {
			bytes += bytesOfState(ref)
		}
		for _, r := range db.shards[i].clients {
			bytes += bytesOf(r)
		}
	}
	return bytes
}

// Callers may change what a store has returned, without an effect on the store.
func TestRecordsAreCopies(t *testing.T) {
	s := opened(t, New(), Options{})
	if err := punish(s, key(1), start); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		records := make([]reputation.Record, 1)
		if err := s.Records(context.Background(), storagetest.At(start), []storage.Client{{Key: key(1)}}, records); err != nil {
			t.Fatal(err)
		}
		if got := records[0].Past[0].At; got != start {
			t.Fatalf("the violation was at %d, want %d", got, start)
		}
		records[0].Past[0].At = 0
	}
}
