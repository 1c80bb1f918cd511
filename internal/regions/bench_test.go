package regions

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/region"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/exchange"
	"github.com/caddy-tally/caddy-tally/storage/exchange/exchangetest"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

// BenchmarkDecide compares decisions with and without regions, for keys that other regions have
// used and for keys that they haven't.
func BenchmarkDecide(b *testing.B) {
	l, err := limiter.New(limiter.Params{Amount: 1 << 30, Window: 3600e9})
	if err != nil {
		b.Fatal(err)
	}
	limit := &engine.Limit{ID: 1, Rate: l}
	for _, name := range []string{"engine", "regions", "regions/foreign"} {
		b.Run(name, func(b *testing.B) {
			e := engine.New(engine.Options{
				Open: memory.New().Opener(memory.Options{}),
				Name: func(_ storage.LimitID, key string, _ time.Duration, _ int64) (n engine.Name, err error) {
					copy(n.Key[:], key)
					return n, nil
				},
			})
			defer e.Close(context.Background())
			at := new(exchangetest.Memory)
			r := New(Options{Region: "eu", Engine: e, Name: testName, Observer: new(heard), Database: func() (unknown storage.Key) { return unknown }, Open: func(context.Context) (exchange.Exchange, error) { return at, nil }})
			defer r.Close(context.Background())
			decide := e.Decide
			if name != "engine" {
				decide = r.Decide
			}
			keys := make([][]byte, 1000)
			for i := range keys {
				keys[i] = fmt.Append(nil, "key", i)
				if name == "regions/foreign" {
					debits := []engine.Debit{{Limit: limit, Key: keys[i], Cost: 1}}
					r.Lower(debits)
					k := debits[0].Foreign.(*key)
					group := k.groups.At(e.Now())
					var rows []exchange.Row
					for _, name := range k.names {
						rows = append(rows, exchange.Row{Limit: 1, Key: name, Group: group, Component: region.Component{Region: "us"}, Units: 10, Expires: k.groups.Expires(group)})
					}
					r.apply(rows)
				}
			}
			debits := make([]engine.Debit, 1)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				debits[0] = engine.Debit{Limit: limit, Key: keys[i%len(keys)], Cost: 1}
				if d := decide(context.Background(), nil, debits); !d.Allowed {
					b.Fatal(d)
				}
				i++
			}
		})
	}
}
