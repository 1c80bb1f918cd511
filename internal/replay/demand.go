package replay

import (
	"slices"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// demand is what clients want of one limit, whatever is refused: each one's peak within a
// window, and what other amounts of the limit would refuse.
type demand struct {
	limit   limiter.Limit // sliding or fixed
	amounts []int64       // other amounts, ascending
	refused []int64       // requests that each of them would refuse
	clients clients
	swept   int64 // how many bytes the slots of clients took after the last sweep
	inexact bool  // there were more slots than fit
	most    int64 // bytes that the slots may take
}

const (
	// maxSlotBytes is how much memory the slots of clients may take per limit, beyond one slot of
	// each. Then neighboring slots are joined, and other amounts aren't tried for more clients.
	maxSlotBytes = 64 << 20
	// sweepFrom is from how much memory on clients are looked for that are idle.
	sweepFrom = 4 << 20
)

func newDemand(l limiter.Limit, amounts []int64) *demand {
	return &demand{limit: slotted(l), amounts: amounts, refused: make([]int64, len(amounts)), most: maxSlotBytes}
}

// slotted returns a limit that counts in slots: of a token bucket, a sliding one with its
// window.
func slotted(l limiter.Limit) limiter.Limit {
	if l.CountsSlots() {
		return l
	}
	sliding, err := limiter.New(limiter.Params{Amount: l.Amount(), Window: l.Window()})
	if err != nil {
		return l // not reached: a limit that there is has an amount and a window
	}
	return sliding
}

// add counts what a client wants at a time, which is not before that of the last call. The
// client may be changed until the next call.
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
	c.expire(d.limit.Oldest(now))
	wanted := c.wanted.sum + cost
	c.peak = max(c.peak, wanted)
	d.try(c, slot, wanted, cost)
	c.wanted.add(slot, cost)
	return c
}

// try finds which of the amounts would have refused a request.
func (d *demand) try(c *client, slot, wanted, cost int64) {
	for i, amount := range d.amounts {
		if i >= len(c.passed) {
			if wanted <= amount {
				return // and larger ones let it pass as well
			}
			if d.clients.slotBytes() >= d.most {
				d.inexact = true
				return
			}
			c.apart()
		}
		if c.passed[i].sum+cost > amount {
			d.refused[i]++
		} else {
			c.passed[i].add(slot, cost)
		}
	}
}

// sweep drops the slots of all clients that don't count any more, and joins some if there are
// too many.
func (d *demand) sweep(now int64) {
	oldest := d.limit.Oldest(now)
	d.clients.each(func(_ uint64, c *client) { c.expire(oldest) })
	if d.clients.slotBytes() > d.most {
		d.inexact = true
		d.clients.each(func(_ uint64, c *client) { c.wanted.join() })
	}
	d.swept = d.clients.slotBytes()
}

// expire drops slots of a client from before the oldest that counts.
func (c *client) expire(oldest int64) {
	c.wanted.expire(oldest)
	if len(c.wanted.slots) == 0 {
		c.passed = c.passed[:0]
	}
	for i := range c.passed {
		c.passed[i].expire(oldest)
	}
}

// add adds units to a slot that is not before any other.
func (u *usage) add(slot, units int64) {
	u.sum += units
	if n := len(u.slots); n > 0 && u.slots[n-1].Index >= slot {
		u.slots[n-1].Used += units
		return
	}
	u.slots = append(u.slots, limiter.Slot{Index: slot, Used: units})
}

// expire drops slots from before the oldest that counts.
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

// join joins each slot with the one after it, if there are several.
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
