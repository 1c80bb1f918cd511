package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Keys with the same hash have separate cells.
func TestKeysOfOneHashAreApart(t *testing.T) {
	table := newTable(10, func(cell) *batch { return nil })
	cell := table.add(ofSlots, 1, []byte("a"))
	shard, hash := table.shardOf(1, []byte("a"))
	if again := table.add(ofSlots, 1, []byte("a")); again != cell || shard.find(1, []byte("a"), hash) != cell.body {
		t.Error("the key is not found, or has another cell when it is added again")
	}
	if shard.find(1, []byte("b"), hash) != nil || shard.find(2, []byte("a"), hash) != nil {
		t.Error("found in the place of another key, or of another limit's")
	}
}

// A table full of blocked keys admits a new one, and the blocked ones stay blocked as far as there
// is room.
func TestTableFullOfBlockedKeys(t *testing.T) {
	const room, attackers = 1000, 3000
	for _, broken := range []bool{false, true} {
		t.Run(fmt.Sprint("broken=", broken), func(t *testing.T) {
			limit := sliding(t, 10, 24*time.Hour)
			inBubble(t, func(t *testing.T, e *faulty) {
				e.table.max.Store(room)
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
				if keys := e.Stats(t.Context()).Keys; keys > room+shardCount {
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
		e.table.max.Store(room)
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
		h.table.max.Store(room)
		h.takes.Store(int64(time.Hour))
		for round := range 20 {
			var group sync.WaitGroup
			for i := range waiting {
				group.Go(func() { h.Decide(context.Background(), nil, []Debit{debit(limit, fmt.Sprint(round, " ", i), 1)}) })
			}
			synctest.Wait()
			if keys := h.Stats(t.Context()).Keys; keys > room+shardCount+2*waiting {
				t.Errorf("%d keys in memory", keys)
			}
			group.Wait()
		}
		h.takes.Store(0)
		time.Sleep(2 * time.Hour)
		for i := range 2 * waiting {
			h.ask(debit(limit, fmt.Sprint("late", i), 1))
		}
		if keys := h.Stats(t.Context()).Keys; keys > room+shardCount+waiting {
			t.Errorf("%d keys in memory afterwards, want about %d", keys, room)
		}
		h.Close(t.Context())
	})
}

// A bucket with more cells than fit finds all of them, even when one was removed and when the table
// has grown or shrunk. So does a reader that began before.
func TestBucketsHoldMoreThanFits(t *testing.T) {
	table := newTable(math.MaxInt, func(cell) *batch { return nil })
	s := &table.shards[0]
	var cells []*body
	check := func(what string) {
		t.Helper()
		for i, c := range cells {
			found := s.find(c.id, c.text(), c.hash)
			if found != c && !c.dead || found != nil && c.dead {
				t.Fatalf("%s: cell %d, dead %v, is found as %p, want %p", what, i, c.dead, found, c)
			}
		}
	}
	for i := range 10 * bucketCells {
		key := fmt.Appendf(nil, "a key %0*d", 1+i, i) // short and long ones
		hash := uint32(i%2) << 31
		s.mu.Lock()
		b, at := s.newBodyLocked(ofSlots, 1, key, hash)
		s.insertLocked(hash, at)
		cells = append(cells, b)
		s.mu.Unlock()
		check("added")
	}
	for i := 0; i < len(cells); i += 3 {
		s.mu.Lock()
		table.removeLocked(s, s.spotOfLocked(cells[i]))
		s.mu.Unlock()
		check("removed")
	}
	for _, n := range []int{64, 1} {
		s.mu.Lock()
		s.rebuildLocked(n)
		s.mu.Unlock()
		check(fmt.Sprint("rebuilt with ", n))
	}
	seen := 0
	for b := range s.all() {
		if seen++; !slices.Contains(cells, b) {
			t.Errorf("%p is found, and was never added", b)
		}
	}
	if want := len(cells) * 2 / 3; seen != want {
		t.Errorf("%d cells are left, want %d", seen, want)
	}
}

// A reader who has found something in buckets that were replaced begins again: what the address stands for
// may have changed.
func TestOldBucketsAreNotRead(t *testing.T) {
	table := newTable(10, func(cell) *batch { return nil })
	key := []byte("a key")
	c := table.add(ofSlots, 1, key)
	s, hash := table.shardOf(1, key)
	before := s.buckets.Load()
	if found, ok := s.findIn(before, 1, key, hash); !ok || found != c.body {
		t.Errorf("found %p in the present buckets (%v), want %p", found, ok, c.body)
	}
	s.mu.Lock()
	s.rebuildLocked(4 * firstBuckets)
	s.mu.Unlock()
	if _, ok := s.findIn(before, 1, key, hash); ok {
		t.Error("the old buckets are read")
	}
	if s.find(1, key, hash) != c.body {
		t.Error("the key is not found in the new buckets")
	}
}

// A walk meets each cell once, also when the number of buckets changes while it goes on.
func TestWalksMeetEachCellOnce(t *testing.T) {
	const cells = 20_000
	table := newTable(math.MaxInt, func(cell) *batch { return nil })
	for i := range cells {
		table.add(ofSlots, 1, fmt.Append(nil, i))
	}
	met, s := make(map[*body]int), &table.shards[0]
	for b := range s.all() {
		if met[b]++; len(met)%10 == 0 {
			s.mu.Lock()
			s.rebuildLocked(firstBuckets << (len(met) / 10 % 9))
			s.mu.Unlock()
		}
		if met[b] > 1 {
			t.Fatalf("met %q again", b.text())
		}
	}
	if len(met) != s.cells {
		t.Errorf("met %d cells of %d", len(met), s.cells)
	}
}
