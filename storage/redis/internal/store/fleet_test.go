package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// fleetMachine is an engine on a server, through its own proxy.
type fleetMachine struct {
	*engine.Engine
	proxy *testserver.Proxy
}

func nameOf(id storage.LimitID, key string, _ time.Duration, _ int64) (engine.Name, error) {
	hash := sha256.Sum256(fmt.Appendf(nil, "%d %s", id, key))
	return engine.Name{Key: storage.Key(hash[:16])}, nil
}

func newFleetMachine(t *testing.T, server *testserver.RedisServer) *fleetMachine {
	t.Helper()
	m := &fleetMachine{proxy: newProxy(t, server)}
	o := at(m.proxy.Address())
	m.Engine = engine.New(engine.Options{Open: Opener(o), StoreTimeout: 5 * time.Second, Name: nameOf})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_ = m.Close(ctx) // some can't reach the server any more
	})
	<-m.Ready()
	return m
}

// Four machines use a limit as fast as they can, while connections are cut and machines are killed
// in turn. In every window at most the limit is admitted, and most of it.
func TestFleet(t *testing.T) {
	t.Parallel()
	const amount, window, machines = 1000, time.Second, 4
	windows := int64(proof.Times(2, 4))
	server := testserver.Redis(t)
	l, err := limiter.New(limiter.Params{Algorithm: limiter.Fixed, Amount: amount, Window: window})
	if err != nil {
		t.Fatal(err)
	}
	limit := &engine.Limit{ID: 1, Rate: l}
	var mu sync.Mutex
	admitted, degraded := make(map[int64]int), 0
	first := l.Slot(time.Now().UnixNano()) + 1
	use := func(m *fleetMachine, until func() bool) {
		for !until() {
			before := time.Now().UnixNano()
			decision := m.Decide(context.Background(), nil, []engine.Debit{{Limit: limit, Key: []byte("everybody"), Cost: 1}})
			after := time.Now().UnixNano()
			mu.Lock()
			if decision.Degraded {
				degraded++
			}
			if slot := l.Slot(before); decision.Allowed && slot == l.Slot(after) {
				admitted[slot]++
			}
			mu.Unlock()
			if !decision.Allowed {
				<-time.After(min(decision.Retry, window))
			}
		}
	}
	over := func() bool { return l.Slot(time.Now().UnixNano()) >= first+windows }
	var group sync.WaitGroup
	for i := range machines {
		group.Go(func() {
			for life := int64(0); !over(); life++ {
				m, random := newFleetMachine(t, server), rand.New(rand.NewPCG(uint64(i), uint64(life)))
				dies := func() bool {
					if random.IntN(200) == 0 {
						cutNext(m.proxy, []testserver.Cut{testserver.Instead, testserver.Unheard}[random.IntN(2)])
					}
					return over() || l.Slot(time.Now().UnixNano()) > first+life && i == int(life)
				}
				use(m, dies)
				m.proxy.Set(testserver.BlackHole) // as if it was killed: it gives nothing back
			}
		})
	}
	group.Wait()
	if degraded > 0 {
		t.Errorf("%d decisions were made without the server", degraded)
	}
	for slot := first; slot < first+windows; slot++ {
		// Usually 990 and more. A killed machine takes with it up to an eighth of what was left, and
		// requests at the edges of a window, which may last on a busy computer, are not counted.
		if n := admitted[slot]; n > amount || n < amount/2 {
			t.Errorf("%d requests were admitted in window %d, want %d to %d", n, slot-first, amount/2, amount)
		}
	}
	t.Logf("admitted %v", admitted)
}
