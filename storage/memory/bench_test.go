package memory

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

func BenchmarkClaim(b *testing.B) {
	storagetest.BenchmarkClaim(b, func(b *testing.B) storage.Store { return opened(b, New(), Options{MaxSize: 1 << 40}) }, nil)
}

// BenchmarkMemory measures the memory per key: of the heap, and as estimated by the store.
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
		if _, err := s.Sweep(context.Background(), storagetest.At(start)); err != nil {
			b.Fatal(err)
		}
	}
}
