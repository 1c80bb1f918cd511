package gate

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Whatever number a request's own config has, nobody enters beyond the number of the running one, and
// nobody waits while it leaves a place free. Reloads come at random.
func TestTheRunningConfigBoundsAllRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seed := new(Gate), rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 1)) // used by one goroutine
		var in, came atomic.Int64
		most, lowered := int64(3), 0
		g.Bound(most)
		for step := range 3000 {
			before, had := came.Load(), in.Load()
			if step%20 == 0 {
				next := 1 + random.Int64N(6)
				if next < had {
					lowered++
				}
				most = next
				g.Bound(most)
			}
			rule := Rule{Most: 1 + random.Int64N(9), Wait: time.Minute, Queue: 1000}
			stay := time.Duration(random.IntN(300)) * time.Millisecond
			go func() {
				if _, err := g.Enter(context.Background(), "key", netip.Prefix{}, rule, nil); err != nil {
					return
				}
				came.Add(1)
				in.Add(1)
				time.Sleep(stay)
				in.Add(-1)
				g.Leave("key")
			}()
			synctest.Wait()
			n := in.Load()
			if came.Load() > before && n > most || n < most && g.Waiting() > 0 {
				t.Fatalf("seed %d, step %d: %d of %d are in, %d wait", seed, step, n, most, g.Waiting())
			}
			time.Sleep(time.Duration(random.IntN(80)) * time.Millisecond)
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		if n := g.Len(); n != 0 || lowered < 5 {
			t.Errorf("seed %d: %d keys are left, %d reloads lowered the number below what was in", seed, n, lowered)
		}
	})
}

func TestUnusedGatesGo(t *testing.T) {
	Named(t.Name()).Bound(1)
	for range 100 {
		runtime.GC()
		mu.Lock()
		_, found := named[t.Name()]
		mu.Unlock()
		if !found {
			return
		}
		runtime.Gosched()
	}
	t.Error("a gate without a config and requests is still there")
}
