package engine // cells

import "sync/atomic"

// rare holds fields that few cells have, most of them for a short time. All but newest are guarded
// by the lock of the cell.
type rare struct {
	body   *body
	newest atomic.Pointer[block] // the newest known refusal; written under the lock of the cell, read without
	// the cell's last entry, in the last batch with an entry of it, until that is answered
	open     *entry
	local    *local // decisions without the store, or nil
	holds    *holds // or nil
	limit    *Limit // of a cell whose limitIs is otherLimit
	inFlight int32  // claims that are waiting or under way
	shares   bool   // the answer to these claims shares units that came back meanwhile, see shareLocked
}

// isZero reports whether the cell needs no rare fields.
func (r *rare) isZero() bool {
	return r.newest.Load() == nil && r.open == nil && r.local == nil && r.holds == nil && r.limit == nil &&
		r.inFlight == 0 && !r.shares
}

// noRare are the rare fields of cells that have none. Nobody changes them.
var noRare rare

// rare returns the rare fields of a cell, to be read, or noRare if they are zero. The blocks among them may be
// read without the lock of the cell.
func (c cell) rare() *rare {
	number := c.Number()
	if number == 0 {
		return &noRare
	}
	if r := c.table.rares.At(number).Load(); r != nil && r.body == c.body {
		return r
	}
	return &noRare // they became zero meanwhile
}

// changeRareLocked changes the rare fields, and drops them if they become zero.
func (c cell) changeRareLocked(change func(*rare)) {
	r := c.rare()
	had := r != &noRare
	if !had {
		r = &rare{body: c.body}
	}
	change(r)
	switch isZero := r.isZero(); {
	case had && isZero:
		number := c.Number()
		c.SetNumber(0)
		c.table.Drop(number)
	case !had && !isZero:
		c.SetNumber(c.table.rares.Add(r))
	}
}

// Drop implements [table.Owner].
func (t *cells) Drop(number uint32) { t.rares.Remove(number) }

// copied returns a copy of the fields for another body.
func (r *rare) copied(b *body) *rare {
	fresh := &rare{body: b, open: r.open, local: r.local, holds: r.holds, limit: r.limit, inFlight: r.inFlight,
		shares: r.shares}
	fresh.newest.Store(r.newest.Load())
	return fresh
}
