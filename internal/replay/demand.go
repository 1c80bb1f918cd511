package replay

import (
	"slices"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// demand is the clients' demand on one limit, regardless of refusals: the peak of each within a
// window.
type demand struct {
	limit   limiter.Limit // sliding or fixed
	clients clients
	swept   int64 // slotBytes after the last sweep
	inexact bool  // slots were joined because they didn't fit
	most    int64 // bytes that the slots may take
}

const (
	// maxSlotBytes bounds the memory of clients' slots per limit, beyond one slot of each. Above
	// it, neighboring slots are joined, so that peaks may be too high.
	maxSlotBytes = 64 << 20
	// sweepFrom is the memory above which idle clients are swept.
	sweepFrom = 4 << 20
)

func newDemand(l limiter.Limit) *demand {
	return &demand{limit: slotted(l), most: maxSlotBytes}
}

// slotted returns a limit that counts in slots: for a token bucket, a sliding limit with its
// window.
func slotted(l limiter.Limit) limiter.Limit {
	if l.CountsSlots() {
		return l
	}
	sliding, err := limiter.New(limiter.Params{Amount: l.Amount(), Window: l.Window()})
	if err != nil {
		return l // unreachable: an existing limit has a valid amount and window
	}
	return sliding
}

// add counts a client's units at now, which must not precede the last call's. The returned client
// may be changed until the next call.
func (d *demand) add(hash uint64, now, cost int64) *client {
	if d.clients.slotBytes() > 2*max(d.swept, sweepFrom) {
		d.sweep(now)
	}
	slot := d.limit.Slot(now)
	if d.clients.len() == 0 {
		d.clients.slot = slot
	}
	c := d.clients.get(hash)
	c.requests++
	c.wanted.expire(d.limit.Oldest(now))
	c.wanted.add(slot, cost)
	c.peak = max(c.peak, c.wanted.sum)
	return c
}

// sweep drops all expired slots of clients, and joins slots if there are too many.
func (d *demand) sweep(now int64) {
	oldest := d.limit.Oldest(now)
	d.clients.each(func(_ uint64, c *client) { c.wanted.expire(oldest) })
	if d.clients.slotBytes() > d.most {
		d.inexact = true
		d.clients.each(func(_ uint64, c *client) { c.wanted.join() })
	}
	d.swept = d.clients.slotBytes()
}

// add adds units to a slot. The slot must not precede the others.
func (u *usage) add(slot, units int64) {
	u.sum += units
	if n := len(u.slots); n > 0 && u.slots[n-1].Index >= slot {
		u.slots[n-1].Used += units
		return
	}
	u.slots = append(u.slots, limiter.Slot{Index: slot, Used: units})
}

// expire drops slots from before oldest.
func (u *usage) expire(oldest int64) {
	n := 0
	for n < len(u.slots) && u.slots[n].Index < oldest {
		u.sum -= u.slots[n].Used
		n++
	}
	if n > 0 {
		u.slots = slices.Delete(u.slots, 0, n)
	}
}

// join joins pairs of neighboring slots, if there are several.
func (u *usage) join() {
	if len(u.slots) < 8 {
		return
	}
	joined := u.slots[:0]
	for pair := range slices.Chunk(u.slots, 2) {
		last := pair[len(pair)-1]
		if len(pair) == 2 {
			last.Used += pair[0].Used
		}
		joined = append(joined, last)
	}
	u.slots = joined
}

// peaks returns the peaks of all clients, ascending.
func (d *demand) peaks() []int64 {
	peaks := make([]int64, 0, d.clients.len())
	d.clients.each(func(_ uint64, c *client) { peaks = append(peaks, c.peak) })
	slices.Sort(peaks)
	return peaks
}
