//go:build unix

package sqlite

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// hashOf returns the name of a key in tests, distributed like a hash.
func hashOf(id storage.LimitID, key string) (name storage.Key) {
	x := uint64(id)
	for i := 0; i < len(key); i++ {
		x = (x ^ uint64(key[i])) * 0x9E3779B97F4A7C15
		x ^= x >> 29
	}
	binary.BigEndian.PutUint64(name[:8], x)
	binary.BigEndian.PutUint64(name[8:], x*0xBF58476D1CE4E5B9^x>>31)
	return name
}

// BenchmarkAtOnce measures decisions of an engine with a database, for new keys and for keys in
// rotation.
func BenchmarkAtOnce(b *testing.B) {
	for _, c := range []struct {
		name      string
		keys      uint32 // 0: all are new
		noJournal bool
	}{{"new", 0, false}, {"rotation", 100_000, false}, {"rotation/transactions", 100_000, true}, {"new/transactions", 0, true}} {
		b.Run(c.name, func(b *testing.B) {
			l, err := limiter.New(limiter.Params{Amount: 1000, Window: time.Minute})
			if err != nil {
				b.Fatal(err)
			}
			limit := &engine.Limit{ID: 1, Rate: l}
			o := Options{Path: filepath.Join(b.TempDir(), "tally.db"), NoJournal: c.noJournal}
			e := engine.New(engine.Options{
				Open: func(ctx context.Context) (storage.Store, error) { return Open(ctx, o) },
				Name: func(id storage.LimitID, key string, _ time.Duration, _ int64) (engine.Name, error) {
					return engine.Name{Key: hashOf(id, key)}, nil
				},
				NameAtOnce: func(id storage.LimitID, key string, _ time.Duration, _ int64) (engine.Name, bool) {
					return engine.Name{Key: hashOf(id, key)}, true
				},
			})
			defer e.Close(context.Background())
			<-e.Ready()
			ask := func(n uint32) {
				var key [4]byte
				binary.LittleEndian.PutUint32(key[:], n)
				if d := e.Decide(context.Background(), nil, []engine.Debit{{Limit: limit, Key: key[:], Cost: 1}}); !d.Allowed || d.Degraded {
					b.Fatalf("%+v", d)
				}
			}
			for n := range max(c.keys, 1) {
				ask(1<<31 + n)
			}
			time.Sleep(time.Second) // until the filter is there
			b.ReportAllocs()
			before := cpuTime(b)
			b.ResetTimer()
			for i := range b.N {
				if c.keys == 0 {
					ask(uint32(i))
				} else {
					ask(1<<31 + uint32(i)%c.keys)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			s := e.Stats(context.Background())
			b.ReportMetric(float64(s.AtOnce)/float64(b.N), "atonce/op")
			b.ReportMetric(float64(s.Claims-s.AtOnce)/float64(b.N), "slow/op")
		})
	}
}
