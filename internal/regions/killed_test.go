package regions

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage/exchange"
	"github.com/caddy-tally/caddy-tally/storage/exchange/exchangetest"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

// Processes that admit units are killed at random, and cut off from the exchange. Once each region has had a request
// for the key and all have heard of each other, none admits more than the limit and a quarter together.
func TestKilledAtRandom(t *testing.T) {
	const limit = 1000
	for seed := range uint64(proof.Times(9, 1000)) {
		l := limitOf(t, limiter.Params{Algorithm: everyAlgorithm[seed%3], Amount: limit, Window: 2400 * time.Hour})
		bubble.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 17))
			at, names := new(exchangetest.Memory), []string{"eu", "us", "ap"}
			counts := []*memory.Database{memory.New(), memory.New(), memory.New()}
			sites, away := make([]*site, len(names)), make([]*atomic.Bool, len(names))
			start := func(i int) {
				cut := new(atomic.Bool)
				away[i] = cut
				sites[i] = open(t, names[i], at, counts[i], func(o *Options) {
					o.Open = func(context.Context) (exchange.Exchange, error) {
						if cut.Load() {
							return nil, errGone
						}
						return cutOff{at, cut}, nil
					}
				})
			}
			for i := range sites {
				start(i)
			}
			defer func() {
				for _, s := range sites {
					s.close()
				}
			}()
			time.Sleep(turns)
			total := 0
			for total < limit {
				for range 5 {
					i := rng.IntN(len(sites))
					switch rng.IntN(4) {
					case 0:
						away[i].Store(true) // killed: it publishes nothing any more
						sites[i].close()
						start(i)
					case 1:
						away[i].Store(!away[i].Load())
					default:
						total += sites[i].count(rng.IntN(80), l, "key")
					}
					time.Sleep(time.Duration(1 + rng.Int64N(int64(turns))))
				}
				for i := range sites {
					away[i].Store(false)
				}
				time.Sleep(2*maxPause + turns)
				for _, s := range sites {
					total += s.count(1, l, "key")
				}
				time.Sleep(2 * turns)
				before := total
				for _, s := range sites {
					total += s.count(rng.IntN(200), l, "key")
					time.Sleep(2 * turns)
				}
				if most := max(before, limit*5/4) + 2; total > most { // a bucket refills a little
					t.Fatalf("seed %d: %d are admitted, %d of them before all had heard of each other; want %d at most", seed, total, before, most)
				}
			}
		})
	}
}
