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
	blocks blocks // written under mu, read without
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

	headroom headroom // guarded by mu
	refused  tally    // requests, since the cell was made
	fixed    *fixed   // what few cells have from the beginning; nil if this has nothing

	known knowledge // guarded by mu
}

// knowledge says in which period of the store the lease of a cell counts all that is in use of the
// key. Then the key has a name, until a time in seconds since the Unix epoch that was never set; 0 if
// it always has. Of a client it is the name under which its record was read.
type knowledge struct {
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

// openEntry returns the last entry in the last batch that has one and is not answered, or nil.
func (r *rare) openEntry() *entry {
	if r == nil {
		return nil
	}
	return r.open
}

// admitted returns what was decided without the store, or nil.
func (r *rare) admitted() *local {
	if r == nil {
		return nil
	}
	return r.local
}

// claims returns how many claims are waiting or under way.
func (r *rare) claims() int32 {
	if r == nil {
		return 0
	}
	return r.inFlight
}

// isHeld reports whether requests hold something of the key.
func (r *rare) isHeld() bool { return r != nil && r.holds.requests > 0 }

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
