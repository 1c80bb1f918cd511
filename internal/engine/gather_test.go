package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

const (
	commitTakes  = 50 * time.Microsecond // of virtual time
	requestTakes = 20 * time.Microsecond // beside the decision
)

// crowded runs a number of clients that make a number of requests each, with a fresh key for every
// request. It returns the average number of claims in a batch and the total duration.
func crowded(t *testing.T, clients, requests int) (claims float64, took time.Duration) {
	bubble.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *Options) {
			open := o.Open
			o.Clock = nil
			o.Open = func(ctx context.Context) (storage.Store, error) {
				store, err := open(ctx)
				store.(*hookedStore).before = func([]storage.Claim) error { time.Sleep(commitTakes); return nil }
				return store, err
			}
		})
		limit := newLimit(t, limiter.Params{Amount: 10, Window: time.Minute})
		synctest.Wait()
		start := time.Now()
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() {
				time.Sleep(time.Duration(c) * requestTakes)
				for r := range requests {
					f.ask(debit(limit, fmt.Sprint(c, "/", r), 1))
					time.Sleep(requestTakes)
				}
			})
		}
		wg.Wait()
		took = time.Since(start)
		claims = float64(f.store.claims.Load()) / float64(f.store.calls.Load())
		f.Close(context.Background())
	})
	return claims, took
}

// A client that comes alone never waits for others.
func TestLoneClientIsNotGathered(t *testing.T) {
	const requests = 100
	if _, took := crowded(t, 1, requests); took != requests*(commitTakes+requestTakes) {
		t.Errorf("%d requests took %v, want %v each", requests, took, commitTakes+requestTakes)
	}
}

// In a crowd, batches grow until they hold nearly all clients, and no client waits for the time
// that a batch may take to fill up when all are there.
func TestCrowdIsGathered(t *testing.T) {
	const requests = 100
	for _, clients := range []int{8, 64} {
		claims, took := crowded(t, clients, requests)
		if claims < 0.8*float64(clients) {
			t.Errorf("%d clients: %.1f claims in a batch on average, want nearly all", clients, claims)
		}
		if most := requests * 2 * (commitTakes + requestTakes); took > most {
			t.Errorf("%d clients: %d requests took %v, want at most %v", clients, requests, took, most)
		}
	}
}
