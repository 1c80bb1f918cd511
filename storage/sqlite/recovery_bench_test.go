package sqlite

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// BenchmarkRecovery opens the database of a killed process, whose journal has a million unfolded
// records of 50,000 keys. It ends when a claim is answered, which must count all charges: from the
// journal, or, with transactions, once all is in the tables.
func BenchmarkRecovery(b *testing.B) {
	const keys, each = 50_000, 20
	limit := newLimit(b, limiter.Params{Amount: 1000, Window: time.Hour})
	files := pendingCharges(b, limit, keys, each)
	for name, o := range map[string]Options{"journal": {}, "transactions": {NoJournal: true}} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				o := o
				o.Path = putFiles(b, files)
				b.StartTimer()
				s, err := Open(context.Background(), o)
				if err != nil {
					b.Fatal(err)
				}
				checkUsed(b, s, limit, 0, each)
				b.StopTimer()
				for range 100 {
					checkUsed(b, s, limit, rand.Uint64N(keys), each)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

func checkUsed(b *testing.B, s *Store, limit limiter.Limit, n uint64, want int64) {
	grants := make([]limiter.Grant, 1)
	err := s.Claim(context.Background(), storagetest.At(start), []storage.Claim{{ID: 7, Key: key(n), Limit: limit, Claim: limiter.Claim{Now: start}}}, grants)
	if err != nil || grants[0].Used != want {
		b.Fatalf("%d of key %d are in use (%v), want %d", grants[0].Used, n, err, want)
	}
}

// pendingCharges returns the files of a database with unfolded charges in its journal.
func pendingCharges(b *testing.B, limit limiter.Limit, keys uint64, each int) map[string]string {
	s := journaled(b, Options{Path: filepath.Join(b.TempDir(), "tally.db"), journalSizes: []journalSize{{128, 8192}}})
	c := storage.Claim{ID: 7, Limit: limit, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}
	if err := s.Claim(context.Background(), storagetest.At(start), []storage.Claim{c}, make([]limiter.Grant, 1)); err != nil {
		b.Fatal(err)
	}
	s.tx.mu.Lock() // nothing is folded
	defer s.tx.mu.Unlock()
	known := make([]limiter.Lease, keys)
	for range each {
		for n := range keys {
			c.Key = key(n)
			grant, err := claimAtOnce(s, s.Period(), 0, c, known[n])
			if err != nil {
				b.Skip("charges don't go to a journal here: ", err)
			}
			known[n] = grant.Lease
		}
	}
	return copyFiles(b, s.options.Path)
}
