package engine

import "github.com/caddy-tally/caddy-tally/limiter"

// headroom is how much is claimed for later of a key, from how it used its leases.
//
// Invariants: units are at most maxHeadroom, and for a key that is charged ahead at most what may be
// forgotten late.
type headroom struct {
	units uint16 // to ask for beyond what is waiting
	first uint16 // the last bits of the slot in which the key came first
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

// adapt sets how much is claimed for later, more and more for a key that uses
// its lease up before that ends, and returns for how many slots: several only for a
// key that has shown to be slow, and no more units then than may be forgotten late.
// A key that comes first gets none at once: most of those don't come again.
func (h *headroom) adapt(limit *Limit, lease *limiter.Lease, now int64, atOnce bool) (ahead int64) {
	first := uint16(firstHeadroomOf(limit))
	switch {
	case lease.At == 0:
		if h.units = first; atOnce {
			h.units = 0
		}
		h.begin(limit, now)
	case limit.InSlot(lease.At, now): // it was used up
		h.units = min(max(2*h.units, 1), maxHeadroom)
	default:
		h.units = max(h.units/2, first)
	}
	if !h.isSlow(limit, lease, now) {
		return 0
	}
	h.units = uint16(min(int64(h.units), limit.MaxLate()))
	return limit.MaxAhead()
}

// begin notes when the key came first.
func (h *headroom) begin(limit *Limit, now int64) {
	if limit.MaxAhead() > 0 {
		h.first = uint16(limit.Slot(now))
	}
}

// isSlow reports whether the key is known to keep far from its limit. Of the
// slot that it was met in there are some bits; the others are those of the last that
// fit, which makes no key slow that is not.
func (h *headroom) isSlow(limit *Limit, lease *limiter.Lease, now int64) bool {
	if limit.MaxAhead() == 0 {
		return false
	}
	slot := limit.Slot(now)
	return lease.Slow(&limit.Limit, slot-int64(uint16(slot)-h.first), now)
}
