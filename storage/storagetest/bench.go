package storagetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// BenchmarkClaim measures batches of claims, all of which are granted: samekeys with 10,000 keys
// that the store knows, and freshkeys with unknown keys. The time advances by 10 µs per claim, so
// that long runs cross slots and windows of a minute. cpu returns the processor time used by the
// process; nil omits it from the report.
func BenchmarkClaim(b *testing.B, open func(b *testing.B) storage.Store, cpu func(b *testing.B) time.Duration) {
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
					claims := &batches{b: b, store: open(b), limit: newLimit(b, limit.params), fresh: keys == "fresh",
						now: start, size: batch}
					claims.measure(cpu)
				})
			}
		}
	}
}

// batches sends batches of claims to a store.
type batches struct {
	b     *testing.B
	store storage.Store
	term  storage.Term
	limit limiter.Limit
	fresh bool
	size  int
	now   int64
	next  int // key
}

const known = 10_000

func (ba *batches) measure(cpu func(b *testing.B) time.Duration) {
	b := ba.b
	claims, grants := make([]storage.Claim, ba.size), make([]limiter.Grant, ba.size)
	ba.term.Clock = ba
	for i := 0; i < known && !ba.fresh; i += ba.size {
		ba.send(claims, grants)
	}
	b.ReportAllocs()
	var used time.Duration
	if cpu != nil {
		used = cpu(b)
	}
	b.ResetTimer()
	for range b.N {
		ba.send(claims, grants)
	}
	b.StopTimer()
	n := float64(b.N) * float64(ba.size)
	b.ReportMetric(float64(b.Elapsed())/n, "ns/claim")
	if cpu != nil {
		b.ReportMetric(float64(cpu(b)-used)/n, "cpu-ns/claim")
	}
}

// Read implements [storage.Clock].
func (ba *batches) Read() storage.Reading { return Moment(ba.now).Read() }

// send sends a batch. After each million keys it deletes the expired rows.
func (ba *batches) send(claims []storage.Claim, grants []limiter.Grant) {
	for i := range claims {
		claims[i] = storage.Claim{ID: 1 << 63, Key: key(ba.next), Limit: ba.limit,
			Claim: limiter.Claim{Now: ba.now, Min: 1, Want: 1}}
		if ba.next++; !ba.fresh {
			ba.next %= known
		}
		ba.now += int64(10 * time.Microsecond)
	}
	if err := ba.store.Claim(context.Background(), &ba.term, claims, grants); err != nil {
		ba.b.Fatal(err)
	}
	if ba.next%(1<<20) < ba.size && ba.fresh {
		sweepAll(ba.b, ba.store, At(ba.now))
	}
}
