package engine

import "github.com/caddy-tally/caddy-tally/limiter"

// lease is most of a [limiter.Lease], in a cell. The parts of units, which only token buckets have,
// are among the rare fields. leaseLocked and setLeaseLocked convert.
type lease struct {
	units, at, used, spent int64
}

// leaseParts is the rest of a lease.
type leaseParts struct {
	used, held, spent int64
}

// leaseLocked returns the lease of a cell.
func (c *cell) leaseLocked() limiter.Lease {
	is := limiter.Lease{Units: c.lease.units, At: c.lease.at, Used: c.lease.used, Spent: c.lease.spent}
	if c.rare != nil {
		is.Part, is.HeldPart, is.SpentPart = c.rare.parts.used, c.rare.parts.held, c.rare.parts.spent
	}
	return is
}

// setLeaseLocked sets the lease of a cell.
func (c *cell) setLeaseLocked(is limiter.Lease) {
	c.lease = lease{units: is.Units, at: is.At, used: is.Used, spent: is.Spent}
	parts := leaseParts{used: is.Part, held: is.HeldPart, spent: is.SpentPart}
	if c.rare != nil || parts != (leaseParts{}) {
		c.changeRareLocked(func(r *rare) { r.parts = parts })
	}
}

// joinLocked adds a granted lease to the lease of a cell, and returns the units to give back, see
// [limiter.Lease.Join].
func (c *cell) joinLocked(limit *Limit, granted limiter.Lease) (back limiter.Lease) {
	is := c.leaseLocked()
	back = is.Join(&limit.Limit, granted)
	c.setLeaseLocked(is)
	return back
}

// rewindLocked moves the drained state of a cell from a later time back to now, see
// [limiter.Lease.Rewind].
func (c *cell) rewindLocked(limit *Limit, now int64) {
	is := c.leaseLocked()
	is.Rewind(&limit.Limit, now)
	c.setLeaseLocked(is)
}
