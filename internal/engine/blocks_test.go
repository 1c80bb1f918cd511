package engine

import (
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// Units given back by another process are known with the next answer of the store, and lift the
// blocks that they disprove.
func TestWhatTheStoreTellsLiftsBlocks(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			f := newFixture(t)
			limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 10, Window: 24 * time.Hour})
			other := func(c limiter.Claim) limiter.Lease {
				c.Now = f.clock.Now()
				return f.disk.claim(limit, "a", c).Lease
			}
			lease := other(limiter.Claim{Min: 7, Want: 7})
			for _, cost := range []int64{10, 6} {
				if f.ask(debit(limit, "a", cost)).Allowed {
					t.Fatalf("%d of 10 are admitted though 7 are charged", cost)
				}
			}
			other(limiter.Claim{Return: lease})
			if d := f.ask(debit(limit, "a", 6)); d.Reason != Blocked {
				t.Fatalf("a cost of 6, before the store was asked again: %+v", d)
			}
			if d := f.ask(debit(limit, "a", 1)); !d.Allowed {
				t.Fatalf("a cost of 1: %+v", d)
			}
			if d := f.ask(debit(limit, "a", 6)); !d.Allowed {
				t.Errorf("a cost of 6, of which the store has told that 9 are left: %+v", d)
			}
		})
	}
}

func TestLiftedBlocks(t *testing.T) {
	const now, later = 100, 200
	chain := func(blocks ...block) (first *block) {
		for i := range blocks {
			blocks[i].older = first
			first = &blocks[i]
		}
		return first
	}
	cheap, dear := block{until: later, cost: 1, capacity: 10}, block{until: later, cost: 9, capacity: 10}
	ended, small := block{until: now, cost: 1, capacity: 10}, block{until: later, cost: 1, capacity: 3}
	local := block{until: later, cost: 1, capacity: 10, local: true}
	for inUse, left := range map[int64]int{10: 4, 9: 3, 3: 3, 2: 2, 1: 1, 0: 1} {
		c := newCells(10, nil).add(ofSlots, 1, []byte("a"))
		c.setBlocksLocked(chain(dear, ended, cheap, small, local))
		c.liftBlocksLocked(inUse, now)
		n := 0
		for b := c.blocks(); b != nil; b = b.older {
			n++
		}
		if n != left {
			t.Errorf("%d blocks are left where %d units are in use, want %d", n, inUse, left)
		}
	}
	c := newCells(10, nil).add(ofSlots, 1, []byte("a"))
	b := chain(cheap, dear)
	c.setBlocksLocked(b)
	if c.liftBlocksLocked(10, now); c.blocks() != b {
		t.Error("a chain of which nothing is lifted is copied")
	}
}
