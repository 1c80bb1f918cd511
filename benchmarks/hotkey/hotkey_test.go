// Package hotkey measures how many claims, and so how many commits at most, a
// key costs that comes often.
package hotkey

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// clock is a clock that passes by the gap between two requests. It makes what is
// counted the same on every machine.
type clock struct{ now atomic.Int64 }

func (c *clock) Read() (r storage.Reading, elapsed int64) {
	now := c.now.Load()
	return storage.Reading{Wall: now, Steady: now, Source: storage.Source{1}, Shared: true}, now
}

func (c *clock) Elapsed() int64 { return c.now.Load() }

// BenchmarkSteady lets one client come at a steady rate for some windows and
// counts claims: at a part of what its limit allows, and beyond it.
func BenchmarkSteady(b *testing.B) {
	for _, limit := range []struct {
		amount int64
		window time.Duration
	}{
		{10, time.Second}, {100, time.Second}, {10_000, time.Second},
		{60, time.Minute}, {1_000, time.Minute}, {10_000, time.Minute},
		{10_000, time.Hour},
	} {
		for _, algorithm := range []limiter.Algorithm{limiter.Sliding, limiter.Fixed, limiter.TokenBucket} {
			for _, percent := range []int64{10, 80, 200} {
				b.Run(fmt.Sprintf("%v/limit=%dper%v/asked=%d%%", algorithm, limit.amount, limit.window, percent), func(b *testing.B) {
					p := limiter.Params{Algorithm: algorithm, Amount: limit.amount, Window: limit.window}
					steady(b, p, percent)
				})
			}
		}
	}
}

// BenchmarkBurst is BenchmarkSteady for token buckets that refill equally fast
// and are written in different ways.
func BenchmarkBurst(b *testing.B) {
	for _, p := range []limiter.Params{
		{Amount: 10, Window: time.Second, Burst: 50},
		{Amount: 600, Window: time.Minute, Burst: 50},
		{Amount: 36_000, Window: time.Hour, Burst: 50},
		{Amount: 600, Window: time.Minute},
	} {
		for _, percent := range []int64{10, 80} {
			b.Run(fmt.Sprintf("limit=%dper%v,burst=%d/asked=%d%%", p.Amount, p.Window, p.Burst, percent), func(b *testing.B) {
				p.Algorithm = limiter.TokenBucket
				steady(b, p, percent)
			})
		}
	}
}

const windows = 4

func steady(b *testing.B, p limiter.Params, percent int64) {
	limit, err := lab.NewLimit(p)
	if err != nil {
		b.Fatal(err)
	}
	gap := int64(p.Window) * 100 / (p.Amount * percent)
	requests := windows * p.Amount * percent / 100
	var admitted, claims int64
	for range b.N {
		c := new(clock)
		c.now.Store(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
		e := start(b, c)
		debits := make([]engine.Debit, 1)
		for range requests {
			c.now.Add(gap)
			debits[0] = engine.Debit{Limit: limit, Key: []byte("hot"), Cost: 1}
			if d := e.Decide(context.Background(), nil, debits); d.Degraded {
				b.Fatal("the store didn't answer")
			} else if d.Allowed {
				admitted++
			}
		}
		claims += e.Stats(context.Background()).Claims
		if err := e.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(claims)/float64(admitted), "claims/admitted")
	b.ReportMetric(float64(admitted)/float64(int64(b.N)*requests), "admitted/request")
	b.ReportMetric(0, "ns/op") // it is the time of a whole run
}

func start(b *testing.B, c engine.Clock) *engine.Engine {
	place, err := lab.NewPlace(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	e, err := place.NewEngine(engine.Options{Clock: c, StoreTimeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// BenchmarkCrowd lets many clients that count as one come as fast as they can,
// by the real clock, within a limit that they don't reach.
func BenchmarkCrowd(b *testing.B) {
	for _, algorithm := range []limiter.Algorithm{limiter.Sliding, limiter.Fixed, limiter.TokenBucket} {
		b.Run(fmt.Sprintf("%v/callers=64", algorithm), func(b *testing.B) {
			crowd(b, limiter.Params{Algorithm: algorithm, Amount: 1_000_000_000, Window: time.Minute}, 64)
		})
	}
}

func crowd(b *testing.B, p limiter.Params, callers int) {
	limit, err := lab.NewLimit(p)
	if err != nil {
		b.Fatal(err)
	}
	e := start(b, nil)
	defer e.Close(context.Background())
	var left, refused atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			debits := make([]engine.Debit, 1)
			for left.Add(-1) >= 0 {
				debits[0] = engine.Debit{Limit: limit, Key: []byte("hot"), Cost: 1}
				if d := e.Decide(context.Background(), nil, debits); !d.Allowed || d.Degraded {
					refused.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if refused.Load() > 0 {
		b.Fatalf("%d of %d requests were refused", refused.Load(), b.N)
	}
	b.ReportMetric(float64(e.Stats(context.Background()).Claims)/float64(b.N), "claims/admitted")
}
