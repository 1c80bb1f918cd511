package memory

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// BenchmarkClaim measures what BenchmarkClaim of storage/sqlite does: batches of
// claims, all of them granted, of keys out of 10,000 that the store knows
// (samekeys), and of keys that it has never seen (freshkeys).
func BenchmarkClaim(b *testing.B) {
	for _, limit := range []struct {
		name   string
		params limiter.Params
	}{
		{"sliding", limiter.Params{Amount: 1 << 30, Window: time.Minute}},
		{"bucket", limiter.Params{Algorithm: limiter.TokenBucket, Amount: 1 << 30, Window: time.Minute}},
	} {
		for _, batch := range []int{1, 8, 64, 512} {
			for _, keys := range []string{"same", "fresh"} {
				b.Run(fmt.Sprintf("%s/batch=%d/%skeys", limit.name, batch, keys), func(b *testing.B) {
					benchmarkClaim(b, newLimit(b, limit.params), batch, keys == "fresh")
				})
			}
		}
	}
}

func benchmarkClaim(b *testing.B, l limiter.Limit, batch int, fresh bool) {
	db := New()
	s := opened(b, db, Options{MaxSize: 1 << 40})
	const known = 10_000
	now, next := start, uint64(0)
	claims, grants := make([]storage.Claim, batch), make([]limiter.Grant, batch)
	send := func() {
		for i := range claims {
			claims[i] = storage.Claim{ID: 1 << 63, Key: key(next), Limit: l, Claim: limiter.Claim{Now: now, Min: 1, Want: 1}}
			if next++; !fresh {
				next %= known
			}
			now += int64(10 * time.Microsecond)
		}
		if err := s.Claim(context.Background(), claims, grants); err != nil {
			b.Fatal(err)
		}
		if next%(1<<20) < uint64(batch) {
			sweepAll(b, s, now)
		}
	}
	for i := 0; i < known && !fresh; i += batch {
		send()
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		send()
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(batch), "ns/claim")
}

// BenchmarkMemory measures what a key takes: of the heap, and by the store's own
// estimate.
func BenchmarkMemory(b *testing.B) {
	const keys = 1_000_000
	for _, algorithm := range []limiter.Algorithm{limiter.Sliding, limiter.TokenBucket} {
		b.Run(algorithm.String(), func(b *testing.B) {
			l := newLimit(b, limiter.Params{Algorithm: algorithm, Amount: 10, Window: time.Minute})
			for range b.N {
				before := heap()
				db := New()
				s := opened(b, db, Options{MaxSize: 1 << 40})
				for n := range uint64(keys) {
					if _, err := claim(s, l, key(n), start); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(heap()-before)/keys, "heap-B/key")
				b.ReportMetric(float64(db.bytes)/keys, "estimated-B/key")
				runtime.KeepAlive(db)
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkSweep measures a step of a sweep through a million keys that count.
func BenchmarkSweep(b *testing.B) {
	s := opened(b, New(), Options{MaxSize: 1 << 40})
	l := newLimit(b, limiter.Params{Amount: 10, Window: time.Minute})
	for n := range uint64(1_000_000) {
		if _, err := claim(s, l, key(n), start); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := s.Sweep(context.Background(), start); err != nil {
			b.Fatal(err)
		}
	}
}
