package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A table full of blocked keys admits a new one, and the blocked ones stay blocked as far as there
// is room.
func TestTableFullOfBlockedKeys(t *testing.T) {
	const room, attackers = 1000, 3000
	for _, broken := range []bool{false, true} {
		t.Run(fmt.Sprint("broken=", broken), func(t *testing.T) {
			limit := sliding(t, 10, 24*time.Hour)
			inBubble(t, func(t *testing.T, e *faulty) {
				e.table.Max.Store(room)
				e.broken.Store(broken)
				for i := range attackers {
					e.count(11, debit(limit, fmt.Sprint("attacker", i), 1))
				}
				fresh := 0
				for i := range 200 {
					fresh += e.count(1, debit(limit, fmt.Sprint("fresh", i), 1))
				}
				if fresh != 200 {
					t.Errorf("%d of 200 new clients passed", fresh)
				}
				again, most := 0, 0
				if broken { // only memory knows them
					most = attackers - room*3/4
				}
				for i := range attackers {
					again += e.count(1, debit(limit, fmt.Sprint("attacker", i), 1))
				}
				if again > most {
					t.Errorf("%d of %d clients who were blocked passed, want at most %d", again, attackers, most)
				}
				if keys := e.Stats(t.Context()).Keys; keys > room+shards {
					t.Errorf("%d keys in memory, want about %d", keys, room)
				}
			})
		})
	}
}

// A key that is evicted between being found and being locked is found again: nothing is granted to,
// or lost with, a cell that is no longer in memory.
func TestEvictionsAmongRequestsLoseNothing(t *testing.T) {
	const clients, keys, rounds = 8, 1000, 4
	f := newFixture(t, func(o *Options) { o.MaxKeys = 1 })
	limit := sliding(t, 1_000_000, 24*time.Hour)
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			for n := range rounds * keys {
				f.ask(debit(limit, fmt.Sprint((i+n)%keys), 1))
			}
		})
	}
	group.Wait()
	f.Close(t.Context())
	for key := range keys {
		if used := f.disk.used(limit, fmt.Sprint(key), f.clock.Now()); used != clients*rounds {
			t.Errorf("%d used of key %d, want the %d admitted", used, key, clients*rounds)
		}
	}
}

// In an outage, keys near a limit are kept in preference to a flood of fresh keys.
func TestKeysNearTheirLimitOutliveAFloodInAnOutage(t *testing.T) {
	withoutRaces(t)
	const near, room, fresh = 80, 2000, 40_000
	limit := sliding(t, 10, 24*time.Hour)
	inBubble(t, func(t *testing.T, e *faulty) {
		e.table.Max.Store(room)
		e.broken.Store(true)
		for i := range near {
			e.count(11, debit(limit, fmt.Sprint("near", i), 1))
		}
		flood := 0
		for i := range fresh {
			flood += e.count(1, debit(limit, fmt.Sprint("fresh", i), 1))
		}
		if flood != fresh {
			t.Errorf("%d of %d new clients passed", flood, fresh)
		}
		again := 0
		for i := range near {
			again += e.count(1, debit(limit, fmt.Sprint("near", i), 1))
		}
		if again > near/10 {
			t.Errorf("%d of %d clients who were at their limit passed after a flood of others", again, near)
		}
	})
}

// While the store hangs, memory stays within its bound, apart from claims under way, and it does
// not grow afterwards.
func TestMemoryIsBoundedWhileTheStoreHangs(t *testing.T) {
	const room, waiting = 1000, 500
	limit := sliding(t, 10, 24*time.Hour)
	whileHanging(t, func(t *testing.T, h *hanging) {
		h.table.Max.Store(room)
		h.takes.Store(int64(time.Hour))
		for round := range 20 {
			var group sync.WaitGroup
			for i := range waiting {
				group.Go(func() { h.Decide(context.Background(), nil, []Debit{debit(limit, fmt.Sprint(round, " ", i), 1)}) })
			}
			synctest.Wait()
			if keys := h.Stats(t.Context()).Keys; keys > room+shards+2*waiting {
				t.Errorf("%d keys in memory", keys)
			}
			group.Wait()
		}
		h.takes.Store(0)
		time.Sleep(2 * time.Hour)
		for i := range 2 * waiting {
			h.ask(debit(limit, fmt.Sprint("late", i), 1))
		}
		if keys := h.Stats(t.Context()).Keys; keys > room+shards+waiting {
			t.Errorf("%d keys in memory afterwards, want about %d", keys, room)
		}
		h.Close(t.Context())
	})
}
