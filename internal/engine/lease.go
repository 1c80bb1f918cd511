package engine // leases

import (
	"unsafe"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// lease is most of a [limiter.Lease], in a cell. The rest of its fields is in the bodies of
// their kinds. leaseLocked and setLeaseLocked convert.
type lease struct {
	units, at, used, spent int64
}

// leaseParts is the rest of a lease.
type leaseParts struct {
	used, held, spent int64
}

// leaseLocked returns the lease of a cell.
func (b *body) leaseLocked() limiter.Lease {
	ls := limiter.Lease{Units: b.lease.units, At: b.lease.at, Used: b.lease.used, Spent: b.lease.spent}
	if slots := b.slotsLocked(); slots != nil {
		ls.Span, ls.Lapsed = int64(slots.span), int64(b.lapsed)
	}
	if parts := b.partsLocked(); parts != nil {
		ls.Part, ls.HeldPart, ls.SpentPart = parts.used, parts.held, parts.spent
	}
	return ls
}

// setLeaseLocked sets the lease of a cell.
func (b *body) setLeaseLocked(ls limiter.Lease) {
	b.lease = lease{units: ls.Units, at: ls.At, used: ls.Used, spent: ls.Spent}
	switch b.Kind() {
	case ofSlots:
		(*slotBody)(unsafe.Pointer(b)).span, b.lapsed = uint8(ls.Span), uint32(ls.Lapsed)
	case ofBucket:
		(*bucketBody)(unsafe.Pointer(b)).parts = leaseParts{used: ls.Part, held: ls.HeldPart, spent: ls.SpentPart}
	}
}

// joinLocked adds a granted lease to the lease of a cell, and returns the units to give back, see
// [limiter.Lease.Join].
func (b *body) joinLocked(limit *Limit, granted limiter.Lease) (back limiter.Lease) {
	ls := b.leaseLocked()
	back = ls.Join(&limit.Rate, granted)
	b.setLeaseLocked(ls)
	return back
}

// rewindLocked moves the drained state of a cell from a later time back to now, see
// [limiter.Lease.Rewind].
func (b *body) rewindLocked(limit *Limit, now int64) {
	ls := b.leaseLocked()
	ls.Rewind(&limit.Rate, now)
	b.setLeaseLocked(ls)
}

// usedLocked returns how many units of the key are in use as far as the cell knows, without its own unspent ones.
func (b *body) usedLocked() int64 { return b.lease.used - b.lease.units }

// useMoreLocked counts units in use that were charged beside the lease.
func (b *body) useMoreLocked(units int64) { b.lease.used += units }

// chargedLocked returns the slot that the lease was charged to, see [limiter.Lease].
func (b *body) chargedLocked() int64 { return b.lease.at }

// putBackLocked puts units that were spent from the lease of a slot back into it, unless the cell has another lease
// now, and reports whether it did.
func (b *body) putBackLocked(slot, units int64) bool {
	if b.lease.at != slot || b.slotsLocked().span > 0 {
		return false
	}
	b.lease.units += units
	b.lease.spent = max(b.lease.spent-units, 0)
	return true
}
