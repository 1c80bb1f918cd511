package engine

import (
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// block says that requests of at least a cost are refused until a time, by a
// limit of some amount. It is immutable, and linked to older ones that say
// something else.
type block struct {
	until    int64
	asks     int64 // until then the store is not asked; as long as until if nobody may give units back
	cost     int64
	left     int64 // units that were left for cheaper requests
	amount   int64 // of the limit that refused
	capacity int64
	local    bool // memory refused, without the store
	held     bool // the request would have held what it costs, as others that are under way may do
	older    *block
}

// localBlock returns a refusal by memory.
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

// covers reports whether everything that other refuses is refused by b for as
// long.
func (b *block) covers(other *block) bool {
	return b.amount == other.amount && b.capacity == other.capacity && (!b.local || other.local) &&
		b.cost <= other.cost && b.until >= other.until
}

// mapped returns a chain of blocks as f returns each: the block, a changed copy of it, or nil to drop
// it. f is called with newer blocks first. Blocks are copied only in front of a changed one.
func (b *block) mapped(f func(*block) *block) *block {
	if b == nil {
		return nil
	}
	is := f(b)
	older := b.older.mapped(f)
	switch {
	case is == nil:
		return older
	case is == b && older == b.older:
		return b
	}
	again := *is
	again.older = older
	return &again
}

// blocks are the refusals of one key that memory knows, the newest first. Reading takes no lock.
// Methods that change it need the lock of the cell.
//
// Invariants: a block never outlives the knowledge that its cost is free. It is
// made only while this process neither holds anything of the key nor gives it
// back, because that could free the cost before the time that the store tells; and
// whatever the store tells of the key later lifts the blocks that it disproves. There are at most
// maxBlocks.
type blocks struct{ newest atomic.Pointer[block] }

const maxBlocks = 4

// refuses returns the block that refuses a request for longest at now, or nil.
// It knows nothing of a limit whose amount was changed, and what memory refused
// counts only while it decides. Then the store can't be asked.
func (bs *blocks) refuses(limit *Limit, cost, now int64, degraded bool) (longest *block) {
	for b := bs.newest.Load(); b != nil; b = b.older {
		if b.applies(limit, cost, now) && (degraded || !b.local && now < b.asks) && (longest == nil || b.until > longest.until) {
			longest = b
		}
	}
	return longest
}

// wasRefused reports whether the store has refused a cost until a time after now.
func (bs *blocks) wasRefused(limit *Limit, cost, now int64) bool {
	for b := bs.newest.Load(); b != nil; b = b.older {
		if b.applies(limit, cost, now) && !b.local {
			return true
		}
	}
	return false
}

// anyAt reports whether anything is refused at now.
func (bs *blocks) anyAt(now int64) bool {
	for b := bs.newest.Load(); b != nil; b = b.older {
		if now < b.until {
			return true
		}
	}
	return false
}

// addLocked remembers a refusal, beside older ones that still say something.
func (bs *blocks) addLocked(fresh block, now int64) {
	kept := 1
	fresh.older = bs.newest.Load().mapped(func(b *block) *block {
		if kept == maxBlocks || now >= b.until || fresh.covers(b) {
			return nil
		}
		kept++
		return b
	})
	bs.newest.Store(&fresh)
}

// changeLocked replaces the blocks by what f returns for each, see [block.mapped].
func (bs *blocks) changeLocked(f func(*block) *block) {
	if b := bs.newest.Load(); b != nil {
		bs.newest.Store(b.mapped(f))
	}
}

// liftLocked forgets the blocks that have ended and those whose cost is free, where
// the store says that so many units are in use.
func (bs *blocks) liftLocked(inUse, now int64) {
	bs.changeLocked(func(b *block) *block {
		if now >= b.until || !b.local && b.cost <= b.capacity-inUse {
			return nil
		}
		return b
	})
}

// liftLocalLocked forgets what memory has refused without the store. It decides anew.
func (bs *blocks) liftLocalLocked() {
	bs.changeLocked(func(b *block) *block {
		if b.local {
			return nil
		}
		return b
	})
}

// askAgainLocked makes the store be asked from now on about what others may have given back.
func (bs *blocks) askAgainLocked(now int64) {
	bs.changeLocked(func(b *block) *block {
		if !b.held || b.asks <= now {
			return b
		}
		again := *b
		again.asks = now
		return &again
	})
}

// clear forgets all.
func (bs *blocks) clear() { bs.newest.Store(nil) }
