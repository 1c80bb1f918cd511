//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// heap tells how much heap a key takes, one limit each: of clients that
// may go on, and of clients that are blocked.
func (s settings) heap(ctx context.Context) error {
	for _, k := range []struct {
		name     string
		params   limiter.Params
		requests int
	}{
		{"sliding, allowed", limiter.Params{Amount: 1000, Window: 24 * time.Hour}, 2},
		{"token bucket, allowed", limiter.Params{Algorithm: limiter.TokenBucket, Amount: 1000, Window: 24 * time.Hour}, 2},
		{"sliding, blocked", limiter.Params{Amount: 1, Window: 24 * time.Hour}, 2},
	} {
		perKey, err := heapPerKey(ctx, s, k.params, k.requests)
		if err != nil {
			return err
		}
		fmt.Printf("heap %s keys=%d bytes/key=%.1f (target 220)\n", k.name, s.keys, perKey)
	}
	return nil
}

func heapPerKey(ctx context.Context, s settings, p limiter.Params, requests int) (float64, error) {
	dir, err := os.MkdirTemp(s.scratch, "heap-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	place, err := lab.NewPlace(dir)
	if err != nil {
		return 0, err
	}
	limit, err := lab.NewLimit(p)
	if err != nil {
		return 0, err
	}
	e, err := place.NewEngine(engine.Options{StoreTimeout: time.Minute, MaxKeys: 2 * s.keys, CleanupInterval: time.Hour})
	if err != nil {
		return 0, err
	}
	<-e.Ready()
	before := heap()
	if err := visit(ctx, e, limit, s.keys, requests); err != nil {
		return 0, err
	}
	after := heap()
	if n := e.Stats(ctx).Keys; n != int64(s.keys) {
		return 0, fmt.Errorf("the engine holds %d keys instead of %d", n, s.keys)
	}
	return float64(after-before) / float64(s.keys), e.Close(ctx)
}

// visit asks the engine about each key some times, from many goroutines, so that
// claims share transactions.
func visit(ctx context.Context, e *engine.Engine, limit *engine.Limit, keys, requests int) error {
	const callers = 256
	var degraded atomic.Int64
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := caller; i < keys && ctx.Err() == nil; i += callers {
				for range requests {
					d := e.Decide(ctx, nil, []engine.Debit{{Limit: limit, Key: []byte(address(i)), Cost: 1}})
					if d.Degraded {
						degraded.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	if n := degraded.Load(); n > 0 {
		return fmt.Errorf("%d decisions were made without the store", n)
	}
	return nil
}

// address returns a text like that of a client's address.
func address(i int) string {
	return fmt.Sprintf("%d.%d.%d.%d", 100+i>>24, i>>16&255, i>>8&255, i&255)
}

// heap returns how many bytes of the heap are in use by what can be reached.
func heap() uint64 {
	for range 3 {
		runtime.GC() // what pools and finalizers hold takes more than one
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
