// Package charges tests charges with ids on engines that share a store.
package charges

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// ids is the limit of ids.
func ids(t *testing.T) *engine.Limit {
	l, err := limiter.New(limiter.Params{Amount: 1, Window: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return &engine.Limit{ID: 99, Rate: l}
}

// ledger adds up what charges have answered. Of each id one charge or refund counts.
type ledger struct {
	t       *testing.T
	mu      sync.Mutex
	charged int64
	back    int64
	taken   map[string]int // effects of each id
}

func (l *ledger) effect(id string, charged, back int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.charged += charged
	l.back += back
	if l.taken[id]++; l.taken[id] > 1 {
		l.t.Errorf("%s took effect %d times: %d charged, %d given back now", id, l.taken[id], charged, back)
	}
}

// Check charges one key of a limit on all engines at once, each id by several goroutines, while others give
// back. Then as many units are left as the answers say. It closes all engines but the first. The limit has 1000 units or more.
func Check(t *testing.T, limit *engine.Limit, engines ...*engine.Engine) {
	t.Helper()
	sum := &ledger{t: t, taken: make(map[string]int)}
	once := ids(t)
	debits := func(units int64) []engine.Debit {
		return []engine.Debit{{Limit: limit, Key: []byte("key"), Cost: units}}
	}
	idOf := func(text string) *engine.Debit { return &engine.Debit{Limit: once, Key: []byte(text), Cost: 1} }
	var all sync.WaitGroup
	for worker := range 4 * len(engines) {
		e, chance := engines[worker%len(engines)], rand.New(rand.NewPCG(1, uint64(worker)))
		all.Go(func() {
			for n := range 30 {
				// Charges and refunds of one id have the same units, so their order doesn't matter.
				id := fmt.Sprint(chance.IntN(10 * len(engines)))
				if n%3 == 2 {
					id = "back " + id
					switch back, repeated, err := e.GiveBack(context.Background(), debits(2), idOf(id)); {
					case err != nil:
						t.Error(err)
					case back < 0 || back > 2:
						t.Errorf("%s gave back %d of 2", id, back)
					case !repeated && back > 0: // without effect the id is free again
						sum.effect(id, 0, back)
					}
					continue
				}
				switch d, repeated, err := e.ChargeOnce(context.Background(), debits(3), idOf(id)); {
				case err != nil:
					t.Error(err)
				case d.Allowed && !repeated:
					sum.effect(id, 3, 0)
				case !d.Allowed && !repeated:
					t.Errorf("%s was refused: %+v", id, d)
				}
			}
		})
	}
	all.Wait()
	if sum.charged == 0 || sum.back == 0 {
		t.Errorf("charged %d and gave back %d: nothing is proved", sum.charged, sum.back)
	}
	want := limit.Amount() - sum.charged + sum.back
	for _, e := range engines[1:] { // it gives back what it holds
		if err := e.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if got := until(t, engines[0], limit, want); got != want {
		t.Errorf("%d units are left of %d, want %d: charged %d, gave back %d", got, limit.Amount(), want, sum.charged, sum.back)
	}
	refuse(t, limit, want, engines[0], debits, idOf)
}

// refuse checks that a charge above what is left is refused, that its id isn't used up, and that it is
// one of those that the store knows once it took effect.
func refuse(t *testing.T, limit *engine.Limit, left int64, e *engine.Engine, debits func(int64) []engine.Debit, idOf func(string) *engine.Debit) {
	t.Helper()
	charge := func(units int64) (bool, bool) {
		d, repeated, err := e.ChargeOnce(context.Background(), debits(units), idOf("last"))
		if err != nil {
			t.Error(err)
		}
		return d.Allowed, repeated
	}
	if allowed, repeated := charge(left + 1); allowed || repeated {
		t.Errorf("%d of %d units: allowed %v, repeated %v", left+1, left, allowed, repeated)
	}
	if allowed, repeated := charge(left); !allowed || repeated {
		t.Errorf("all %d units that are left: allowed %v, repeated %v", left, allowed, repeated)
	}
	if _, repeated := charge(left); !repeated {
		t.Error("a charge whose answer was lost is refused for the lack of the units that it has")
	}
	if back, _, err := e.GiveBack(context.Background(), debits(limit.Amount()), idOf("all")); err != nil || back > limit.Amount() || back < left {
		t.Errorf("gave back %d of at least %d: %v", back, left, err)
	}
	if back, repeated, err := e.GiveBack(context.Background(), debits(limit.Amount()), idOf("all")); back != 0 || !repeated || err != nil {
		t.Errorf("again: gave back %d, repeated %v: %v", back, repeated, err)
	}
	if back, _, err := e.GiveBack(context.Background(), debits(limit.Amount()), idOf("more")); back != 0 || err != nil {
		t.Errorf("gave back %d that were not charged any more: %v", back, err)
	}
	if free := until(t, e, limit, limit.Amount()); free != limit.Amount() {
		t.Errorf("%d of %d are free when all was given back", free, limit.Amount())
	}
}

// until returns how many units are free, when these are as many as wanted, or in the end.
func until(t *testing.T, e *engine.Engine, limit *engine.Limit, want int64) (free int64) {
	for deadline := time.Now().Add(30 * time.Second); free != want && time.Now().Before(deadline); {
		free = left(t, e, limit)
	}
	return free
}

// left returns how many units an engine can hold, and puts them back.
func left(t *testing.T, e *engine.Engine, limit *engine.Limit) (units int64) {
	var held []*engine.Pending
	for size := int64(64); size > 0; {
		debits := []engine.Debit{{Limit: limit, Key: []byte("key"), Cost: size, Counting: engine.Held}}
		d := e.Decide(context.Background(), nil, debits)
		if d.Degraded {
			t.Fatal("the store can't be used")
		}
		if !d.Allowed {
			size /= 2
			continue
		}
		units += size
		held = append(held, debits[0].Pending)
	}
	for _, p := range held {
		p.Settle(false)
	}
	return units
}

// Outlive charges with ids while lose makes the store lose its last data, or all, and then repeats all charges. None
// takes effect twice.
func Outlive(t *testing.T, limit *engine.Limit, e *engine.Engine, lose func()) {
	t.Helper()
	sum, once := &ledger{t: t, taken: make(map[string]int)}, ids(t)
	charge := func(id string) {
		for deadline := time.Now().Add(2 * time.Minute); ; <-time.After(time.Millisecond) {
			named := &engine.Debit{Limit: once, Key: []byte(id), Cost: 1}
			d, repeated, err := e.ChargeOnce(context.Background(), []engine.Debit{{Limit: limit, Key: []byte("key"), Cost: 1}}, named)
			switch {
			case err == nil && !repeated && d.Allowed:
				sum.effect(id, 1, 0)
				return
			case err == nil && repeated:
				return
			case time.Now().After(deadline):
				t.Errorf("%s is not charged: %+v, %v", id, d, err)
				return
			}
		}
	}
	for round := range proof.Times(2, 15) {
		const workers, each = 4, 25
		all := func(half func()) {
			var group, busy sync.WaitGroup
			busy.Add(workers)
			for worker := range workers {
				group.Go(func() {
					for n := range each {
						if charge(fmt.Sprint(round, worker, n)); n == each/2 {
							busy.Done()
						}
					}
				})
			}
			busy.Wait()
			half()
			group.Wait()
		}
		all(lose)
		all(func() {})
	}
	if sum.charged == 0 {
		t.Error("nothing was charged, and nothing is proved")
	}
}
