package engine

import "sync/atomic"

// rare holds fields that few cells have, most of them for a short time. All but newest are guarded
// by the lock of the cell.
type rare struct {
	body     *body
	newest   atomic.Pointer[block] // the newest known refusal; written under the lock of the cell, read without
	open     *entry                // the cell's last entry, in the last batch with an entry of it, until that is answered
	local    *local                // decisions without the store, or nil
	holds    *holds                // or nil
	limit    *Limit                // of a cell whose limitIs is otherLimit
	inFlight int32                 // claims that are waiting or under way
	shares   bool                  // the answer to these claims shares units that came back meanwhile, see shareLocked
}

// isZero reports whether the cell needs no rare fields.
func (r *rare) isZero() bool {
	return r.newest.Load() == nil && r.open == nil && r.local == nil && r.holds == nil && r.limit == nil && r.inFlight == 0 && !r.shares
}

// rare returns the rare fields of a cell, or nil if they are zero. The blocks among them may be
// read without the lock of the cell.
func (c cell) rare() *rare {
	number := c.Number()
	if number == 0 {
		return nil
	}
	if r := c.table.rares.At(number).Load(); r != nil && r.body == c.body {
		return r
	}
	return nil // they became zero meanwhile
}

// changeRareLocked changes the rare fields, and drops them if they become zero.
func (c cell) changeRareLocked(change func(*rare)) {
	r := c.rare()
	had := r != nil
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
	fresh := &rare{body: b, open: r.open, local: r.local, holds: r.holds, limit: r.limit, inFlight: r.inFlight, shares: r.shares}
	fresh.newest.Store(r.newest.Load())
	return fresh
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

// held returns the pending requests of the key and their units, or nil if there are none.
func (r *rare) held() *holds {
	if r == nil {
		return nil
	}
	return r.holds
}
