package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

const (
	crowdSize     = 200 // requests of one key at a time
	crowdsAtATime = 4   // crowds at a time, each with a key of its own
)

// Most requests of a crowd, with mixed costs over several limits, are refused by one limit and
// claim from the others in vain. Afterwards each limit admits exactly its rest. Real time and
// threads determine the interleaving.
func TestCrowdsLeaveNoLimitShut(t *testing.T) {
	t.Parallel()
	crowds := int64(proof.Times(100, 100_000))
	if testing.Short() {
		crowds = min(crowds, 20)
	}
	c := newCrowd(t)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range crowdsAtATime {
		workers.Go(func() {
			for n := next.Add(1); n <= crowds && !t.Failed(); n = next.Add(1) {
				c.come(uint64(n))
			}
		})
	}
	workers.Wait()
}

// patientOptions are the options of stores that wait for the transactions of others on a busy
// machine.
func patientOptions(path string) Options { return Options{Path: path, BusyTimeout: time.Minute} }

// crowd is an engine on a database, and the limits of the crowds.
type crowd struct {
	*engine.Engine
	t      *testing.T
	limits []*engine.Limit
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{t: t}
	for i, p := range []limiter.Params{
		{Amount: 10, Window: 10 * time.Minute},
		{Amount: 100, Window: 24 * time.Hour},
		{Algorithm: limiter.Fixed, Amount: 40, Window: 24 * time.Hour},
		{Algorithm: limiter.TokenBucket, Amount: 30, Window: 24 * time.Hour},
	} {
		c.limits = append(c.limits, &engine.Limit{ID: storage.LimitID(i) + 1, Rate: newLimit(t, p)})
	}
	path := filepath.Join(t.TempDir(), "tally.db")
	c.Engine = engine.New(engine.Options{
		Open:         func(ctx context.Context) (storage.Store, error) { return Open(ctx, patientOptions(path)) },
		Name:         namesOf,
		MaxKeys:      64, // so that keys are evicted all the time
		StoreTimeout: 10 * time.Minute,
	})
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// come sends a random crowd, and checks its effect.
func (c *crowd) come(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	key := fmt.Sprint("key", seed)
	admitted := make([]atomic.Int64, len(c.limits))
	start := make(chan struct{})
	var requests sync.WaitGroup
	for range crowdSize {
		debits := c.debits(rng, key)
		requests.Go(func() {
			<-start
			if c.decide(debits...).Allowed {
				for _, d := range debits {
					admitted[d.Limit.ID-1].Add(d.Cost)
				}
			}
		})
	}
	close(start)
	requests.Wait()
	for i, l := range c.limits {
		left := l.Capacity() - admitted[i].Load()
		if l.Algorithm() == limiter.TokenBucket {
			left-- // a cell that is evicted forgets what it spent, so its key's next lease drains as well
		}
		c.checkLeft(seed, l, key, left)
	}
}

// debits returns the debits of a request from some of the limits.
func (c *crowd) debits(rng *rand.Rand, key string) (debits []engine.Debit) {
	for _, i := range rng.Perm(len(c.limits))[:1+rng.IntN(len(c.limits))] {
		cost := []int64{1, 1, 1, 2, 3, 8}[rng.IntN(6)]
		debits = append(debits, engine.Debit{Limit: c.limits[i], Key: []byte(key), Cost: cost})
	}
	return debits
}

func (c *crowd) decide(debits ...engine.Debit) engine.Decision {
	d := c.Decide(context.Background(), nil, debits)
	if d.Degraded {
		c.t.Errorf("decided without the store: %+v", d)
	}
	return d
}

// checkLeft requests a single unit if any is left, and then the others.
func (c *crowd) checkLeft(seed uint64, l *engine.Limit, key string, left int64) {
	for _, cost := range []int64{min(left, 1), left - 1} {
		if cost <= 0 {
			continue
		}
		if d := c.decide(engine.Debit{Limit: l, Key: []byte(key), Cost: cost}); !d.Allowed {
			c.t.Errorf("crowd %d: %v of %d has %d left, and refuses %d: %+v", seed, l.Algorithm(), l.Capacity(), left, cost, d)
		}
	}
}
