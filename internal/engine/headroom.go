package engine // leases

import (
	"math"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// headroom is the number of units claimed for later use of a key, based on how it used its leases.
//
// Invariants: units are at most maxHeadroom. For a key that is charged ahead they are at most the
// number of units that may be forgotten late.
type headroom struct {
	units uint16 // to claim beyond the waiting requests
	first uint16 // the last bits of the slot of the key's first request
}

const (
	headroomShare = 64 // headroom starts at this part of the capacity
	firstHeadroom = 16 // and at most here
	maxHeadroom   = 1 << 14
)

// firstHeadroomOf returns the headroom of a new key.
func firstHeadroomOf(limit *Limit) int64 {
	return min(limit.Capacity()/headroomShare, firstHeadroom)
}

// A process that is killed takes what it holds of a limit with it, until that expires. So it holds little of limits
// with a window longer than lossWindow: of each key at most a heldShare-th, or leastHeld units, and is lent a bit less
// at a time. Larger leases would save hardly any claims: a limit that is used up soon leaves little to lend (decision
// 169).
const (
	lossWindow = time.Hour
	heldShare  = 16
	lentShare  = 20
	leastHeld  = 20
	leastLent  = 16
)

// most returns the most units that a process may hold of a key, and be lent at a time.
func (l *Limit) most() (held, lent int64) {
	if l.Window() <= lossWindow {
		return math.MaxInt64, math.MaxInt64
	}
	return max(l.Capacity()/heldShare, leastHeld), max(l.Capacity()/lentShare, leastLent)
}

// adapt sets the headroom. It grows for a key that uses its lease up before the lease ends. adapt
// returns the number of slots to charge ahead: several only for a key that has proved to be slow,
// and then with at most as many units as may be forgotten late. With claims at once a new key gets
// no headroom: most new keys have no second request.
func (h *headroom) adapt(limit *Limit, lease *limiter.Lease, now int64, atOnce bool) (ahead int64) {
	first := uint16(firstHeadroomOf(limit))
	switch {
	case lease.At == 0:
		if h.units = first; atOnce {
			h.units = 0
		}
		h.begin(limit, now)
	case limit.InSlot(lease.At, now): // it was used up
		_, most := limit.most()
		h.units = uint16(min(max(2*int64(h.units), 1), maxHeadroom, most))
	default:
		h.units = max(h.units/2, first)
	}
	if !h.isSlow(limit, lease, now) {
		return 0
	}
	h.units = uint16(min(int64(h.units), limit.MaxLate()))
	return limit.MaxAhead()
}

// begin notes the slot of the key's first request.
func (h *headroom) begin(limit *Limit, now int64) {
	if limit.MaxAhead() > 0 {
		h.first = uint16(limit.Slot(now))
	}
}

// firstSlot returns the last slot up to the given one that has the bits of first. A key that came first
// before that is taken for younger, which makes no fast key slow.
func (h *headroom) firstSlot(slot int64) int64 { return slot - int64(uint16(slot)-h.first) }

// isSlow reports whether the key is known to stay far below its limit.
func (h *headroom) isSlow(limit *Limit, lease *limiter.Lease, now int64) bool {
	if limit.MaxAhead() == 0 {
		return false
	}
	return lease.Slow(&limit.Rate, h.firstSlot(limit.Slot(now)), now)
}
