package engine

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// cell is the state of one key of one limit in memory.
//
// Invariants: the units of lease are charged to the store and not spent. In the store period named
// by the cell, the used units of its lease are at least all that are in use of the key, for as long
// as they count. Exceptions are claims of the cell that are under way, and units admitted by
// memory. A dead cell is in no table, holds no lease, and is not used again. A cell with claims in
// flight is not evicted.
//
// There are very many cells, and most are not in the processor's caches. So cells are small, and
// the fields used by most decisions come first, up to the first bytes of short: mostly two cache
// lines.
type cell struct {
	blocks blocks // written under mu, read without
	id     storage.LimitID
	hash   uint32
	unused atomic.Uint32 // how many sweeps found that no request used it since the previous sweep

	mu    sync.Mutex
	limit *Limit // guarded by mu, like all up to dead: the last limit of a request, or the last chosen one
	lease lease  // unspent units, and the known state of the rest
	rare  *rare  // fields that few cells need; nil if they are zero
	dead  bool
	ahead uint8 // the number of slots that the last lease was charged ahead, up to 255

	size  uint8          // how many bytes of short are the key's text, or longKey
	short [shortKey]byte // the key's text, if that is short

	headroom headroom // guarded by mu
	refused  tally    // requests, since the cell was made
	fixed    *fixed   // fields that few cells have, set when the cell is made; nil if there are none

	known knowledge // guarded by mu
}

// knowledge says in which period of the store the lease of a cell counts all units in use of the
// key. name is then the name of the key, until a time in seconds since the Unix epoch that was
// never set; 0 if the name never changes. For a client it is the name under which its record was
// read.
type knowledge struct {
	period, until uint32
	name          storage.Key
}

const (
	shortKey = 21  // the longest text that a cell holds itself: IP addresses are shorter
	longKey  = 255 // the size of a cell whose text is longer: fixed has it
)

// fixed holds fields that few cells have, and that never change.
type fixed struct {
	key    []byte       // the text of the key, if it is long
	client *clientState // of a client; nil where the cell is one of a limit
}

// rare holds fields that few cells have, most of them for a short time. It is guarded by the lock
// of the cell.
type rare struct {
	open     *entry // the cell's last entry, in the last batch with an entry of it, until that is answered
	local    *local // decisions without the store, or nil
	inFlight int32  // claims that are waiting or under way
	shares   bool   // the answer to these claims shares units that came back meanwhile, see shareLocked
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

// is reports whether the cell is that of a key with a hash.
func (c *cell) is(id storage.LimitID, key []byte, hash uint32) bool {
	return c.hash == hash && c.id == id && string(c.text()) == string(key)
}

// text returns the text of the key. Callers must not change it.
func (c *cell) text() []byte {
	if c.size == longKey {
		return c.fixed.key
	}
	return c.short[:c.size]
}

// key returns a copy of the key's text.
func (c *cell) key() string { return string(c.text()) }

// client returns the state of a client, or nil if the cell is one of a limit.
func (c *cell) client() *clientState {
	if c.id != clientsID {
		return nil
	}
	return c.fixed.client
}

// openEntry returns the cell's last entry that is not answered yet, or nil.
func (r *rare) openEntry() *entry {
	if r == nil {
		return nil
	}
	return r.open
}

// admitted returns the state of decisions without the store, or nil.
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

// isHeld reports whether requests hold units of the key.
func (r *rare) isHeld() bool { return r != nil && r.holds.requests > 0 }

// changeRareLocked changes the rare fields, and drops them if they become zero.
func (c *cell) changeRareLocked(change func(*rare)) {
	if c.rare == nil {
		c.rare = new(rare)
	}
	change(c.rare)
	if *c.rare == (rare{}) {
		c.rare = nil
	}
}

// setLocalLocked sets the state of decisions without the store.
func (c *cell) setLocalLocked(local *local) {
	c.changeRareLocked(func(r *rare) { r.local = local })
}

// touch marks the cell as in use.
func (c *cell) touch() {
	if c.unused.Load() != 0 {
		c.unused.Store(0)
	}
}

// spendableLocked reports whether the lease covers a debit. Units that may be given back are spent
// in the slot they are charged to, and not from a lease that was charged ahead: giving that back
// would move them.
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

// settlesLocked returns how many units giving the lease back makes free.
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
