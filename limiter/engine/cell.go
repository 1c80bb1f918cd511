package engine

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// cell is what memory knows of one key of one limit.
//
// Invariants: the units of lease are charged to the store and not spent. In the store's period
// that a cell names, its lease counts at least what is in use of the key, for as long as that
// counts, unless claims of it are on their way or memory has admitted something. A cell
// that is dead is in no table, holds no lease, and is not used again. A cell
// with claims in flight is not evicted.
//
// There are very many of them, and most are far from the processor. So cells are small, and
// what most decisions use comes first, up to the first bytes of short: two cache lines mostly.
type cell struct {
	block  atomic.Pointer[block] // written under mu, read without
	id     storage.LimitID
	hash   uint32
	unused atomic.Uint32 // how many sweeps found that nobody has asked for it since the one before

	mu    sync.Mutex
	limit *Limit // guarded by mu, like all up to dead: as last brought along or chosen
	lease lease  // unspent units, and what is known of the rest
	rare  *rare  // what few cells have; nil if it has nothing
	dead  bool

	size  uint8          // how many bytes of short are the key's text, or longKey
	short [shortKey]byte // the key's text, if that is short

	headroom uint16 // guarded by mu: units to ask for beyond what is waiting
	first    uint16 // guarded by mu: the last bits of the slot in which the key came first
	refused  tally  // requests, since the cell was made
	fixed    *fixed // what few cells have from the beginning; nil if this has nothing

	// The lease counts all that is in use of the key, if the period of the store is this one.
	// Then the key has this name, until a time in seconds since the Unix epoch that was never
	// set; 0 if it always has. Guarded by mu.
	period, until uint32
	name          storage.Key
}

const (
	shortKey = 22  // the length of the longest text that a cell holds itself: that of an IP address is shorter
	longKey  = 255 // the size of a cell whose text is longer: fixed has it
)

// fixed is what few cells have, and which never changes.
type fixed struct {
	key    []byte       // the text of the key, if it is long
	client *clientState // of a client; nil where the cell is one of a limit
}

// rare is what few cells have, and most of these for a short time. It is guarded by the lock of
// the cell.
type rare struct {
	open     *entry // the last entry in the last batch that has one and is not answered
	local    *local // what was decided without the store, or nil
	inFlight int32  // claims that are waiting or under way
	shares   bool   // the answer to these is to give back what came back meanwhile, see shareLocked
	parts    leaseParts
	holds    holds
}

func newCell(id storage.LimitID, key []byte, hash uint32) *cell {
	c := &cell{id: id, hash: hash}
	if id == clientsID || len(key) > shortKey {
		c.fixed = new(fixed)
	}
	if id == clientsID {
		c.fixed.client = new(clientState)
	}
	if len(key) > shortKey {
		c.size, c.fixed.key = longKey, bytes.Clone(key)
	} else {
		c.size = uint8(copy(c.short[:], key))
	}
	return c
}

// is reports whether the cell is that of a key, which has a hash.
func (c *cell) is(id storage.LimitID, key []byte, hash uint32) bool {
	return c.hash == hash && c.id == id && string(c.text()) == string(key)
}

// text returns the text of the key. Nobody may change it.
func (c *cell) text() []byte {
	if c.size == longKey {
		return c.fixed.key
	}
	return c.short[:c.size]
}

// key returns a copy of the key's text.
func (c *cell) key() string { return string(c.text()) }

// client returns what is known of a client; nil where the cell is one of a limit.
func (c *cell) client() *clientState {
	if c.id != clientsID {
		return nil
	}
	return c.fixed.client
}

func (c *cell) openLocked() *entry {
	if c.rare == nil {
		return nil
	}
	return c.rare.open
}

func (c *cell) localLocked() *local {
	if c.rare == nil {
		return nil
	}
	return c.rare.local
}

func (c *cell) inFlightLocked() int32 {
	if c.rare == nil {
		return 0
	}
	return c.rare.inFlight
}

// changeRareLocked changes what few cells have.
func (c *cell) changeRareLocked(change func(*rare)) {
	if c.rare == nil {
		c.rare = new(rare)
	}
	change(c.rare)
	if *c.rare == (rare{}) {
		c.rare = nil
	}
}

// setLocalLocked sets what was decided without the store.
func (c *cell) setLocalLocked(local *local) {
	c.changeRareLocked(func(r *rare) { r.local = local })
}

// block says that requests of at least a cost are refused until a time, by a
// limit of some amount. It is immutable, and linked to older ones that say
// something else.
//
// Invariant: a block never outlives the knowledge that its cost is free. It is
// made only while this process neither holds anything of the key nor gives it
// back, because that could free the cost before the time that the store tells; and
// whatever the store tells of the key later lifts the blocks that it disproves.
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

// maxBlocks bounds the chain of blocks of a cell.
const maxBlocks = 4

// blocked returns the block that refuses a request for longest at now, or nil.
// It knows nothing of a limit whose amount was changed, and what memory refused
// counts only while it decides. Then the store can't be asked.
func (c *cell) blocked(limit *Limit, cost, now int64, degraded bool) (longest *block) {
	for b := c.block.Load(); b != nil; b = b.older {
		if b.applies(limit, cost, now) && (degraded || !b.local && now < b.asks) && (longest == nil || b.until > longest.until) {
			longest = b
		}
	}
	return longest
}

// wasRefused reports whether the store has refused a cost until a time after now.
func (c *cell) wasRefused(limit *Limit, cost, now int64) bool {
	for b := c.block.Load(); b != nil; b = b.older {
		if b.applies(limit, cost, now) && !b.local {
			return true
		}
	}
	return false
}

func (b *block) applies(limit *Limit, cost, now int64) bool {
	return now < b.until && b.cost <= cost && b.amount == limit.Amount() && b.capacity == limit.Capacity()
}

// blockLocked remembers a refusal, beside older ones that still say something.
func (c *cell) blockLocked(fresh block, now int64) {
	var kept []block
	for b := c.block.Load(); b != nil && len(kept) < maxBlocks-1; b = b.older {
		if now < b.until && !fresh.covers(b) {
			kept = append(kept, *b)
		}
	}
	for i := len(kept) - 1; i >= 0; i-- {
		kept[i].older = fresh.older
		fresh.older = &kept[i]
	}
	c.block.Store(&fresh)
}

// liftLocked forgets the blocks that have ended and those whose cost is free, where
// the store says that so many units are in use.
func (c *cell) liftLocked(inUse, now int64) {
	if b := c.block.Load(); b != nil {
		c.block.Store(b.lifted(inUse, now))
	}
}

// lifted returns those of a chain of blocks that go on.
func (b *block) lifted(inUse, now int64) *block {
	if b == nil {
		return nil
	}
	older := b.older.lifted(inUse, now)
	switch {
	case now >= b.until || !b.local && b.cost <= b.capacity-inUse:
		return older
	case older == b.older:
		return b
	}
	goesOn := *b
	goesOn.older = older
	return &goesOn
}

// covers reports whether everything that other refuses is refused by b for as
// long.
func (b *block) covers(other *block) bool {
	return b.amount == other.amount && b.capacity == other.capacity && (!b.local || other.local) &&
		b.cost <= other.cost && b.until >= other.until
}

// touch marks the cell as in use.
func (c *cell) touch() {
	if c.unused.Load() != 0 {
		c.unused.Store(0)
	}
}

// spendableLocked reports whether the lease covers a debit. What may be given back is spent in the
// slot that it is charged to, and not from a lease that was charged ahead: giving that back moves
// what was spent of it.
func (c *cell) spendableLocked(d *Debit, now int64) bool {
	lease := c.leaseLocked()
	return lease.Worth(&d.Limit.Limit, now) >= d.Cost && (d.Counting == Always || !d.Limit.CountsSlots() || lease.At <= d.Limit.Slot(now))
}

// spendLocked takes a debit from the lease, which must cover it.
func (c *cell) spendLocked(d *Debit, now int64) {
	lease := c.leaseLocked()
	lease.SpendWorth(&d.Limit.Limit, now, d.Cost)
	c.setLeaseLocked(lease)
	d.Known, d.at = true, lease.SpentAt(&d.Limit.Limit, now)
	d.Quota = lease.Quota(&d.Limit.Limit, now)
}

const (
	headroomShare = 64 // headroom starts at this part of the capacity
	firstHeadroom = 16 // and at most here
	maxHeadroom   = 1 << 14
)

// firstHeadroomOf returns how much is claimed for later of a key that comes first.
func firstHeadroomOf(limit *Limit) int64 {
	return min(limit.Capacity()/headroomShare, firstHeadroom)
}

// adaptLocked sets how much is claimed for later, more and more for a key that uses
// its lease up before that ends, and returns for how many slots: several only for a
// key that has shown to be slow, and no more units then than may be forgotten late.
// A key that comes first gets none at once: most of those don't come again.
func (c *cell) adaptLocked(limit *Limit, now int64, atOnce bool) (ahead int64) {
	first := uint16(firstHeadroomOf(limit))
	switch {
	case c.lease.at == 0:
		if c.headroom = first; atOnce {
			c.headroom = 0
		}
		c.noteFirstLocked(limit, now)
	case limit.InSlot(c.lease.at, now): // it was used up
		c.headroom = min(max(2*c.headroom, 1), maxHeadroom)
	default:
		c.headroom = max(c.headroom/2, first)
	}
	if !c.slowLocked(limit, now) {
		return 0
	}
	c.headroom = uint16(min(int64(c.headroom), limit.MaxLate()))
	return limit.MaxAhead()
}

// noteFirstLocked notes when the key came first.
func (c *cell) noteFirstLocked(limit *Limit, now int64) {
	if limit.MaxAhead() > 0 {
		c.first = uint16(limit.Slot(now))
	}
}

// slowLocked reports whether the key is known to keep far from its limit. Of the
// slot that it was met in there are some bits; the others are those of the last that
// fit, which makes no key slow that is not.
func (c *cell) slowLocked(limit *Limit, now int64) bool {
	if limit.MaxAhead() == 0 {
		return false
	}
	slot := limit.Slot(now)
	return c.leaseLocked().Slow(&limit.Limit, slot-int64(uint16(slot)-c.first), now)
}

// settlesLocked returns how many units giving the lease back sets right.
func (c *cell) settlesLocked(now int64) int64 {
	if c.limit == nil {
		return 0 // nothing was ever claimed
	}
	return c.leaseLocked().Settles(&c.limit.Limit, now)
}

// takeLeaseLocked takes the lease out of the cell, for giving it back.
func (c *cell) takeLeaseLocked() limiter.Lease {
	if c.limit == nil {
		return limiter.Lease{} // nothing was ever claimed
	}
	lease := c.leaseLocked()
	taken := lease.Take(&c.limit.Limit)
	c.setLeaseLocked(lease)
	return taken
}
