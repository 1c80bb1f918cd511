package engine // cells

import "sync/atomic"

// rare holds fields that few cells have, most of them for a short time. All but newest are guarded
// by the lock of the cell. A blocked cell mostly has no claims, which therefore take no memory then.
type rare struct {
	body   *body
	newest atomic.Pointer[block] // the newest known refusal; written under the lock of the cell, read without
	*busy                        // noBusy if zero
}

// busy are the rare fields beside blocks.
type busy struct {
	// the cell's last entry, in the last batch with an entry of it, until that is answered
	open     *entry
	local    *local // decisions without the store, or nil
	holds    *holds // or nil
	limit    *Limit // of a cell whose limitIs is otherLimit
	inFlight int32  // claims that are waiting or under way
	shares   bool   // the answer to these claims shares units that came back meanwhile, see shareLocked
}

// noBusy are such fields that are zero. Nobody changes them.
var noBusy = new(busy)

// noRare are the rare fields of cells that have none. Nobody changes them.
var noRare = rare{busy: noBusy}

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

// changeRareLocked changes the rare fields, and drops them if they become zero. Blocks are changed by setBlocksLocked.
func (c cell) changeRareLocked(change func(*busy)) {
	c.withRareLocked(func(r *rare) {
		if r.busy == noBusy {
			r.busy = new(busy)
		}
		if change(r.busy); *r.busy == *noBusy {
			r.busy = noBusy
		}
	})
}

// withRareLocked calls f with rare fields of the cell's own. It drops them if they become zero.
func (c cell) withRareLocked(f func(*rare)) {
	r := c.rare()
	had := r != &noRare
	if !had {
		r = &rare{body: c.body, busy: noBusy}
	}
	f(r)
	switch isZero := r.newest.Load() == nil && r.busy == noBusy; {
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
	fresh := &rare{body: b, busy: noBusy}
	if r.busy != noBusy {
		own := *r.busy
		fresh.busy = &own
	}
	fresh.newest.Store(r.newest.Load())
	return fresh
}
