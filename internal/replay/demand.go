package replay

import (
	"slices"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// demand is what clients want of one limit, whatever is refused: each one's peak within a
// window, and what other amounts of the limit would refuse.
type demand struct {
	limit    limiter.Limit // sliding or fixed
	amounts  []int64       // other amounts, ascending
	refused  []int64       // requests that each of them would refuse
	clients  clients
	recent   []*recent // of clients that are active in several slots; the first is none
	unused   []uint32  // indices of recent
	added    int       // requests
	slots    int       // that recent has
	inexact  bool      // there were more slots than fit
	maxSlots int
}

// maxSlots is how many slots of clients are held per limit, 64 MB. Beyond that neighboring
// slots are joined, and other amounts aren't tried for more clients.
const maxSlots = 4 << 20

// recent is what a client wanted within the last window, where that is in several slots or over
// one of the amounts.
type recent struct {
	wanted usage
	passed []usage // what each of the amounts would have let pass; none if that is all
}

// usage is units in slots, ascending.
type usage struct {
	slots []limiter.Slot
	sum   int64
}

func newDemand(l limiter.Limit, amounts []int64) *demand {
	return &demand{limit: slotted(l), amounts: amounts, refused: make([]int64, len(amounts)), recent: make([]*recent, 1), maxSlots: maxSlots}
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

// add counts what a client wants at a time, which is not before that of the last call.
func (d *demand) add(hash uint64, now, cost int64) *client {
	if d.added++; d.added%sweepEvery == 0 {
		d.sweep()
	}
	c := d.clients.get(hash)
	c.requests++
	slot, oldest := d.limit.Slot(now), d.limit.Oldest(now)
	if c.recent != 0 {
		d.expire(c, oldest)
	}
	if c.recent == 0 && (c.units == 0 || c.slot < oldest) {
		c.slot, c.units = slot, 0
	}
	if c.recent == 0 && c.slot != slot {
		d.remember(c)
	}
	wanted := c.units + cost
	if c.recent != 0 {
		wanted = d.recent[c.recent].wanted.sum + cost
	}
	c.peak = max(c.peak, wanted)
	d.try(c, slot, wanted, cost)
	if c.recent == 0 {
		c.units = wanted
	} else {
		d.slots += d.recent[c.recent].wanted.add(slot, cost)
	}
	return c
}

// try finds which of the amounts would have refused a request.
func (d *demand) try(c *client, slot, wanted, cost int64) {
	for i, amount := range d.amounts {
		var r *recent
		if c.recent != 0 {
			r = d.recent[c.recent]
		}
		if r == nil || i >= len(r.passed) {
			if wanted <= amount {
				return // and larger ones let it pass as well
			}
			if d.slots >= d.maxSlots {
				d.inexact = true
				return
			}
			if r == nil {
				d.remember(c)
				r = d.recent[c.recent]
			}
			r.passed = append(r.passed, r.wanted.clone())
			d.slots += len(r.wanted.slots)
		}
		if r.passed[i].sum+cost > amount {
			d.refused[i]++
		} else {
			d.slots += r.passed[i].add(slot, cost)
		}
	}
}

// remember gives a client room for several slots.
func (d *demand) remember(c *client) {
	r := new(recent)
	if c.units > 0 {
		d.slots += r.wanted.add(c.slot, c.units)
	}
	if n := len(d.unused); n > 0 {
		c.recent = d.unused[n-1]
		d.unused = d.unused[:n-1]
		d.recent[c.recent] = r
		return
	}
	d.recent = append(d.recent, r)
	c.recent = uint32(len(d.recent) - 1)
}

// sweepEvery is after how many requests clients are looked for that are idle.
const sweepEvery = 1 << 18

// sweep notes of which clients nothing needs to be remembered any more. The time that counts is
// that of the newest slot that there is.
func (d *demand) sweep() {
	newest := int64(-1 << 62)
	for _, r := range d.recent[1:] {
		if r != nil && len(r.wanted.slots) > 0 {
			newest = max(newest, r.wanted.slots[len(r.wanted.slots)-1].Index)
		}
	}
	oldest := newest - d.limit.Slots()
	d.clients.each(func(c *client) {
		if c.recent != 0 {
			d.expire(c, oldest)
		}
	})
	if d.slots > d.maxSlots {
		d.inexact = true
		for _, r := range d.recent[1:] {
			if r != nil {
				d.slots -= r.wanted.join()
			}
		}
	}
}

// expire drops slots of a client from before the oldest that counts.
func (d *demand) expire(c *client, oldest int64) {
	r := d.recent[c.recent]
	d.slots -= r.wanted.expire(oldest)
	if len(r.wanted.slots) > 0 {
		for i := range r.passed {
			d.slots -= r.passed[i].expire(oldest)
		}
		return
	}
	for i := range r.passed {
		d.slots -= len(r.passed[i].slots)
	}
	d.recent[c.recent] = nil
	d.unused = append(d.unused, c.recent)
	c.recent, c.units = 0, 0
}

// add adds units to a slot that is not before any other, and returns how many slots there are
// more.
func (u *usage) add(slot, units int64) (more int) {
	u.sum += units
	if n := len(u.slots); n > 0 && u.slots[n-1].Index >= slot {
		u.slots[n-1].Used += units
		return 0
	}
	u.slots = append(u.slots, limiter.Slot{Index: slot, Used: units})
	return 1
}

// expire drops slots from before the oldest that counts, and returns how many.
func (u *usage) expire(oldest int64) (dropped int) {
	for dropped < len(u.slots) && u.slots[dropped].Index < oldest {
		u.sum -= u.slots[dropped].Used
		dropped++
	}
	if dropped > 0 {
		u.slots = slices.Delete(u.slots, 0, dropped)
	}
	return dropped
}

// join joins each slot with the one after it, and returns how many there are less.
func (u *usage) join() (less int) {
	if len(u.slots) < 8 {
		return 0
	}
	joined := u.slots[:0:0]
	for pair := range slices.Chunk(u.slots, 2) {
		last := pair[len(pair)-1]
		if len(pair) == 2 {
			last.Used += pair[0].Used
		}
		joined = append(joined, last)
	}
	less = len(u.slots) - len(joined)
	u.slots = joined
	return less
}

func (u *usage) clone() usage { return usage{slices.Clone(u.slots), u.sum} }

// peaks returns the peaks of all clients, ascending.
func (d *demand) peaks() []int64 {
	peaks := make([]int64, 0, d.clients.n)
	d.clients.each(func(c *client) { peaks = append(peaks, c.peak) })
	slices.Sort(peaks)
	return peaks
}
