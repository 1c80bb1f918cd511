// Package hotkey measures how many claims, and so how many commits at most, a
// key costs that comes often.
package hotkey

import (
	"context"
	"fmt"
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
	for _, amount := range []int64{60, 1_000, 10_000} {
		for _, algorithm := range []limiter.Algorithm{limiter.Sliding, limiter.Fixed, limiter.TokenBucket} {
			for _, percent := range []int64{10, 80, 200} {
				b.Run(fmt.Sprintf("%v/limit=%dper%v/asked=%d%%", algorithm, amount, time.Minute, percent), func(b *testing.B) {
					steady(b, limiter.Params{Algorithm: algorithm, Amount: amount, Window: time.Minute}, percent)
				})
			}
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
		place, err := lab.NewPlace(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		e := place.NewEngine(engine.Options{Clock: c, StoreTimeout: time.Minute})
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
