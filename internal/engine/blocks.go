package engine // cells

import "github.com/caddy-tally/caddy-tally/limiter"

// block says that a limit of some amount refuses requests of at least a cost until a time. It is
// immutable, and linked to older blocks of other costs, times or amounts.
type block struct {
	until    int64
	asks     int64 // until then the store is not asked; equal to until if no process may give units back
	cost     int64
	left     int64 // units that were left for cheaper requests
	amount   int64 // of the refusing limit
	capacity int64
	local    bool // refused by memory, without the store
	held     bool // the refused request would have held its cost, as concurrent ones may do
	older    *block
}

// localBlock returns the block for a refusal by memory.
func localBlock(debit *Debit, g limiter.Grant, now int64) block {
	return block{
		until: now + int64(g.Retry), cost: debit.Cost,
		amount: debit.Limit.Amount(), capacity: debit.Limit.Capacity(),
		local: true,
	}
}

func (b *block) applies(limit *Limit, cost, now int64) bool {
	return now < b.until && b.cost <= cost && b.amount == limit.Amount() && b.capacity == limit.Capacity()
}

// covers reports whether b refuses everything that other refuses, for at least as long.
func (b *block) covers(other *block) bool {
	return b.amount == other.amount && b.capacity == other.capacity && (!b.local || other.local) &&
		b.cost <= other.cost && b.until >= other.until
}

// mapped returns a chain with the results of f for each block: the block, a changed copy of it, or
// nil to drop it. f is called with newer blocks first. Blocks are copied only in front of a changed
// one.
func (b *block) mapped(f func(*block) *block) *block {
	if b == nil {
		return nil
	}
	result := f(b)
	older := b.older.mapped(f)
	switch {
	case result == nil:
		return older
	case result == b && older == b.older:
		return b
	}
	again := *result
	again.older = older
	return &again
}

// maxBlocks is how many blocks a key has at most.
const maxBlocks = 4

// blocks returns the newest of the known refusals of a key, or nil. It takes no lock. Methods that
// change them need the lock of the cell.
//
// Invariants: a block never outlives the knowledge that its cost is free. It is made only while
// this process neither has units of the key nor gives any back, because they could free the cost
// before the store's retry time. Later answers of the store about the key lift the blocks that they
// disprove.
func (c cell) blocks() *block {
	for ; c.exists(); c = c.table.find(c.ID, c.text()) {
		if r := c.rare(); r != &noRare {
			return r.newest.Load()
		}
		if !c.Moved() {
			return nil
		}
	}
	return nil
}

// setBlocksLocked replaces the blocks.
func (c cell) setBlocksLocked(newest *block) {
	if c.blocks() != newest && !c.Dead() {
		c.withRareLocked(func(r *rare) { r.newest.Store(newest) })
	}
}

// refuses returns the block that refuses a request for longest at now, or nil. Blocks don't apply
// to a limit whose amount was changed. Refusals by memory apply only while memory decides, because
// the store can't be asked then.
func (b *block) refuses(limit *Limit, cost, now int64, degraded bool) (longest *block) {
	for ; b != nil; b = b.older {
		if b.applies(limit, cost, now) && (degraded || !b.local && now < b.asks) &&
			(longest == nil || b.until > longest.until) {
			longest = b
		}
	}
	return longest
}

// wasRefused reports whether the store has refused a cost until a time after now.
func (b *block) wasRefused(limit *Limit, cost, now int64) bool {
	for ; b != nil; b = b.older {
		if b.applies(limit, cost, now) && !b.local {
			return true
		}
	}
	return false
}

// anyAt reports whether any cost is refused at now.
func (b *block) anyAt(now int64) bool {
	for ; b != nil; b = b.older {
		if now < b.until {
			return true
		}
	}
	return false
}

// addBlockLocked adds a block, and keeps older ones that it doesn't cover.
func (c cell) addBlockLocked(fresh block, now int64) {
	kept := 1
	fresh.older = c.blocks().mapped(func(b *block) *block {
		if kept == maxBlocks || now >= b.until || fresh.covers(b) {
			return nil
		}
		kept++
		return b
	})
	c.setBlocksLocked(&fresh)
}

// liftBlocksLocked drops blocks that have ended, and blocks whose cost is free according to the
// store's number of units in use.
func (c cell) liftBlocksLocked(inUse, now int64) {
	c.setBlocksLocked(c.blocks().mapped(func(b *block) *block {
		if now >= b.until || !b.local && b.cost <= b.capacity-inUse {
			return nil
		}
		return b
	}))
}

// liftLocalBlocksLocked drops refusals by memory. Memory decides anew.
func (c cell) liftLocalBlocksLocked() {
	c.setBlocksLocked(c.blocks().mapped(func(b *block) *block {
		if b.local {
			return nil
		}
		return b
	}))
}

// askAgainLocked lets the store be asked again from now on: other processes may have given back
// units.
func (c cell) askAgainLocked(now int64) {
	c.setBlocksLocked(c.blocks().mapped(func(b *block) *block {
		if !b.held || b.asks <= now {
			return b
		}
		again := *b
		again.asks = now
		return &again
	}))
}
