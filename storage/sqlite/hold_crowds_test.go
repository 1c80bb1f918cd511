package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Crowds whose requests hold units and then don't count come to one, two and three processes on a
// database. Each process starts during the previous crowds. Afterwards every process admits the
// whole limit again, soon after all others have given it back.
func TestCrowdsThatDoNotCountLeaveNoLimitShut(t *testing.T) {
	t.Parallel()
	rounds := 2
	if testing.Short() {
		rounds = 1
	}
	for _, p := range []limiter.Params{
		{Amount: 5, Window: 24 * time.Hour},
		{Algorithm: limiter.Fixed, Amount: 5, Window: 24 * time.Hour},
		{Algorithm: limiter.TokenBucket, Amount: 5, Window: 24 * time.Hour},
	} {
		for _, journal := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v, journal %v", p.Algorithm, journal), func(t *testing.T) {
				t.Parallel()
				reached := 0
				for round := range rounds {
					h := &heldCrowds{t: t, journal: journal, path: filepath.Join(t.TempDir(), "tally.db"), rng: rand.New(rand.NewPCG(uint64(round), 1)),
						limit: &engine.Limit{ID: 1, Rate: newLimit(t, p)}}
					h.come()
					reached += h.shared
				}
				if reached == 0 {
					t.Error("no process began while others held units: nothing is proved")
				}
			})
		}
	}
}

type heldCrowds struct {
	t       *testing.T
	path    string
	journal bool
	rng     *rand.Rand
	limit   *engine.Limit
	engines []*engine.Engine
	shared  int // processes that began while others held units
}

func (h *heldCrowds) come() {
	for range 3 {
		h.begin()
		var crowds sync.WaitGroup
		for _, e := range h.engines {
			for range 12 {
				crowds.Go(func() {
					for range 6 {
						if p := h.hold(e); p != nil {
							time.Sleep(time.Duration(h.number(2000)) * time.Microsecond) // is at work
							p.Settle(false)
						}
					}
				})
			}
		}
		crowds.Wait()
		for i, e := range h.engines {
			h.wantAll(i, e)
		}
	}
	for _, e := range h.engines {
		if err := e.Close(context.Background()); err != nil {
			h.t.Error(err)
		}
	}
}

var numbers sync.Mutex

func (h *heldCrowds) number(n int) int {
	numbers.Lock()
	defer numbers.Unlock()
	return h.rng.IntN(n)
}

// begin starts one more process while the others have requests under way.
func (h *heldCrowds) begin() {
	var held []*engine.Pending
	for _, e := range h.engines {
		for range 1 + h.number(4) {
			if p := h.hold(e); p != nil {
				held = append(held, p)
			}
		}
	}
	if len(held) > 0 {
		h.shared++
	}
	e := engine.New(engine.Options{
		Open: func(ctx context.Context) (storage.Store, error) {
			o := patientOptions(h.path)
			o.NoJournal = !h.journal
			return Open(ctx, o)
		},
		Name:         namesOf,
		StoreTimeout: 10 * time.Minute,
	})
	h.engines = append(h.engines, e)
	<-e.Ready()
	for _, p := range held {
		p.Settle(false)
	}
}

// hold makes a request that holds a unit. It is nil if the request is refused.
func (h *heldCrowds) hold(e *engine.Engine) *engine.Pending {
	debits := []engine.Debit{{Limit: h.limit, Key: []byte("key"), Cost: 1, Counting: engine.Held}}
	if d := e.Decide(context.Background(), nil, debits); !d.Allowed {
		return nil
	}
	return debits[0].Pending
}

// wantAll waits until an engine admits the whole limit, and gives it back.
func (h *heldCrowds) wantAll(i int, e *engine.Engine) {
	h.t.Helper()
	most := 0
	for end, bounded := h.t.Deadline(); ; time.Sleep(50 * time.Millisecond) {
		var held []*engine.Pending
		for p := h.hold(e); p != nil; p = h.hold(e) {
			held = append(held, p)
		}
		for _, p := range held {
			p.Settle(false)
		}
		if most = max(most, len(held)); len(held) == int(h.limit.Amount()) {
			return
		}
		if bounded && time.Until(end) < 10*time.Second {
			h.t.Fatalf("process %d of %d admits %d of %d: %v", i, len(h.engines), most, h.limit.Amount(), fmt.Sprint(e.Stats(context.Background())))
		}
	}
}
