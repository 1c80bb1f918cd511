package store

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Four engines use up a limit together while connections are cut. They admit exactly the limit.
func TestEnginesShareALimit(t *testing.T) {
	const amount, engines, clients = 1000, 4, 8
	server := sharedServer(t)
	proxy, err := testserver.NewProxy(server.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	params, err := limiter.New(limiter.Params{Amount: amount, Window: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	o := newOptions()
	limit := &engine.Limit{ID: 1, Rate: params}
	var admitted, degraded atomic.Int64
	var group sync.WaitGroup
	begin := make(chan struct{})
	for range engines {
		e := engine.New(engine.Options{
			Open: opener(t, server, proxy.Port, o), StoreTimeout: time.Minute, Remote: true,
			Name: func(_ storage.LimitID, key string, _ time.Duration, _ int64) (name engine.Name, _ error) {
				copy(name.Key[:], key)
				return name, nil
			},
		})
		defer e.Close(context.Background())
		<-e.Ready()
		for range clients {
			group.Go(func() {
				<-begin
				for {
					d := e.Decide(context.Background(), nil, []engine.Debit{{Limit: limit, Key: []byte("key"), Cost: 1}})
					switch {
					case d.Allowed:
						admitted.Add(1)
					case !d.Degraded:
						return
					}
					if d.Degraded {
						degraded.Add(1)
					}
				}
			})
		}
	}
	var cuts atomic.Int64
	proxy.SetCut(func() testserver.Cut {
		if rand.IntN(20) != 0 {
			return testserver.Pass
		}
		cuts.Add(1)
		return []testserver.Cut{testserver.Instead, testserver.Unheard, testserver.AtOnce}[rand.IntN(3)]
	})
	close(begin)
	group.Wait()
	proxy.SetCut(func() testserver.Cut { return testserver.Pass })
	if n := admitted.Load(); n > amount || n < amount*99/100 {
		t.Errorf("%d of %d were admitted, %d decisions were made without the store, after %d cuts", n, amount, degraded.Load(), cuts.Load())
	}
}
