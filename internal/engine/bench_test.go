package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// BenchmarkDecide measures decisions on a store that costs next to nothing, to measure the engine.
// The real store has its own benchmarks.
func BenchmarkDecide(b *testing.B) {
	for _, keys := range []int{1, 100_000, 1_000_000} {
		for _, algorithm := range algorithms {
			if keys > 1 && algorithm != limiter.Sliding {
				continue // the lookup is the same, and a bucket's lease drains before its key is back
			}
			limit := newLimit(b, limiter.Params{Algorithm: algorithm, Amount: limiter.MaxAmount, Window: limiter.MaxWindow})
			benchDecide(b, fmt.Sprintf("warm/%v/keys=%d", algorithm, keys), limit, keys)
		}
		limit := newLimit(b, limiter.Params{Amount: 1, Window: limiter.MaxWindow})
		benchDecide(b, fmt.Sprintf("blocked/keys=%d", keys), limit, keys)
	}
	b.Run("cold", func(b *testing.B) {
		e := benchEngine(b)
		limit := newLimit(b, limiter.Params{Amount: 100, Window: time.Hour})
		b.ReportAllocs()
		var key [8]byte
		for i := range b.N {
			binary.BigEndian.PutUint64(key[:], uint64(i))
			e.Decide(context.Background(), nil, []Debit{{Limit: limit, Key: key[:], Cost: 1}})
		}
	})
}

func benchEngine(b *testing.B) *Engine {
	e := New(Options{
		Open:         func(context.Context) (storage.Store, error) { return &hookedStore{disk: newDisk()}, nil },
		Name:         testNames,
		MaxKeys:      2_000_000,
		StoreTimeout: time.Minute,
	})
	b.Cleanup(func() { e.Close(context.Background()) })
	return e
}

// benchDecide runs a benchmark of decisions on keys that were used twice before.
func benchDecide(b *testing.B, name string, limit *Limit, keys int) {
	var e *Engine
	texts := make([][]byte, keys)
	fill := sync.OnceFunc(func() {
		e = benchEngine(b)
		for i := range texts {
			texts[i] = binary.BigEndian.AppendUint64(nil, uint64(i)*0x9E3779B97F4A7C15)
		}
		askOften(e, limit, texts, 2)
	})
	b.Run(name, func(b *testing.B) {
		fill()
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			debits := make([]Debit, 1)
			for i := 0; pb.Next(); i++ {
				debits[0] = Debit{Limit: limit, Key: texts[(i*7919)%keys], Cost: 1}
				e.Decide(context.Background(), nil, debits)
			}
		})
	})
	if e != nil {
		e.Close(context.Background())
	}
}

// askOften sends some requests for each key, for many keys at a time.
func askOften(e *Engine, limit *Limit, texts [][]byte, times int) {
	const clients = 1000
	var asking sync.WaitGroup
	for first := range min(clients, len(texts)) {
		asking.Go(func() {
			for i := first; i < len(texts); i += clients {
				for range times {
					e.Decide(context.Background(), nil, []Debit{{Limit: limit, Key: texts[i], Cost: 1}})
				}
			}
		})
	}
	asking.Wait()
}

// BenchmarkMemory measures what a key takes of the heap, and of a garbage collection.
func BenchmarkMemory(b *testing.B) {
	const keys = 1_000_000
	for _, algorithm := range []limiter.Algorithm{limiter.Sliding, limiter.TokenBucket} {
		limit := newLimit(b, limiter.Params{Algorithm: algorithm, Amount: 10, Window: time.Minute})
		for _, blocked := range []bool{false, true} {
			b.Run(fmt.Sprintf("%v/blocked=%v", algorithm, blocked), func(b *testing.B) {
				for b.Loop() {
					before, collected := heap(), collection()
					table, key := newCells(keys, nil), []byte("i\x01\x02\x03\x04")
					for i := range uint32(keys) {
						binary.BigEndian.PutUint32(key[1:], i)
						c := table.add(kindOf(limit), limit.ID, key)
						if c.setLimitLocked(limit); blocked {
							c.setBlocksLocked(new(block))
						}
					}
					after, collectedAll := heap(), collection()
					b.ReportMetric(float64(after-before)/keys, "heap-B/key")
					b.ReportMetric(float64(collectedAll-collected)/keys, "collection-ns/key")
					runtime.KeepAlive(table)
				}
			})
		}
	}
}

// BenchmarkNewKeys measures the table's part of a new key, without and with an eviction.
func BenchmarkNewKeys(b *testing.B) {
	for _, room := range []int{math.MaxInt, 300_000} {
		b.Run(fmt.Sprint("full=", room < math.MaxInt), func(b *testing.B) {
			b.ReportAllocs()
			table, key := newCells(room, func(cell) *batch { return nil }), make([]byte, 8)
			for i := range b.N {
				binary.BigEndian.PutUint64(key, uint64(i))
				table.add(ofSlots, 1, key)
			}
		})
	}
}

// collection returns how long a garbage collection takes.
func collection() time.Duration {
	start := time.Now()
	runtime.GC()
	return time.Since(start)
}
