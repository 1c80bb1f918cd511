package engine // operators

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file gives back units that applications have charged (decision 161).

// ErrTooFarBack says that units to give back weren't found in time. Nothing has changed.
var ErrTooFarBack = errors.New("the units are too far back")

// GiveBack gives back units that [Engine.ChargeOnce] has charged and that still count, of each debit at
// most its cost, those of the latest slots first. It returns the most that it gave back to a limit. The limits
// have slots. Units are given back to the slots that they were charged in. It sets Known and Quota of debits as
// Decide does.
//
// Of calls with one id one takes effect, as of charges. The id is used up before units are given back, so that
// nothing is given back twice, and is free again if nothing was. An error that wraps [storage.ErrUnknownOutcome]
// says that it may be used up all the same, or that units may have been given back; after other errors nothing has
// changed.
func (e *Engine) GiveBack(ctx context.Context, debits []Debit, id *Debit) (units int64, repeated bool, err error) {
	defer e.peek(debits)
	if repeated, err = e.peekID(ctx, id); err != nil || repeated {
		return 0, repeated, err
	}
	charged, err := e.chargedOf(ctx, debits)
	if err != nil || charged == nil {
		return 0, false, err
	}
	if repeated, err = e.claimID(ctx, id); err != nil || repeated {
		return 0, repeated, err
	}
	for i := range debits {
		var back int64
		back, err = e.giveBack(ctx, &debits[i], charged[i])
		if units = max(units, back); err != nil {
			break
		}
	}
	switch {
	case errors.Is(err, storage.ErrUnknownOutcome):
	case units == 0:
		if freed := e.freeID(ctx, id); freed != nil {
			err = fmt.Errorf("%w: the id stays used up: %w", storage.ErrUnknownOutcome, cmp.Or(err, freed))
		}
	case err != nil:
		err = fmt.Errorf("%w: only %d units were given back: %w", storage.ErrUnknownOutcome, units, err)
	}
	return units, false, err
}

// peek sets Known and Quota of debits.
func (e *Engine) peek(debits []Debit) {
	for i := range debits {
		debits[i].cell = e.table.find(debits[i].Limit.ID, debits[i].Key)
		debits[i].peek(e.clock.Now())
	}
}

// chargedOf returns the slots of each debit that can be given back, or nil if there are none.
func (e *Engine) chargedOf(ctx context.Context, debits []Debit) (charged [][]limiter.Slot, err error) {
	until, found := time.Now().Add(2*e.opts.now().StoreTimeout), 0
	for i := range debits {
		slots, err := e.chargedSlots(ctx, &debits[i], until)
		if err != nil {
			return nil, err
		}
		charged, found = append(charged, slots), found+len(slots)
	}
	if found == 0 {
		return nil, nil
	}
	return charged, nil
}

// freeID gives back an id that was just used up.
func (e *Engine) freeID(ctx context.Context, id *Debit) error {
	if id == nil {
		return nil
	}
	return e.atCommitter(ctx, func(cm *committer) error {
		_, err := cm.claimDirectly(direct{id, limiter.Claim{Return: emptied(id.Limit.Slot(cm.clock.Now())-1, 2)}})
		if err == nil {
			cm.ids.drop(id)
		}
		return err
	})
}

// slots is a range of slots.
type slots struct{ first, n int64 }

// split splits a range into parts of a size or less, the latest first.
func (s slots) split(size int64) (parts []slots) {
	for end := s.first + s.n; end > s.first; end -= size {
		first := max(end-size, s.first)
		parts = append(parts, slots{first, end - first})
	}
	return parts
}

// maxSearched is how many ranges of slots one call of the store examines.
const maxSearched = 127

// chargedSlots returns the latest slots in which charges have taken the cost of a debit, and their units: no
// more than the cost, and less if charges have taken less. It examines ranges of slots, and then the slots in
// those with units. Each call of the store lets requests go first, and later ones are made until a time only.
func (e *Engine) chargedSlots(ctx context.Context, d *Debit, until time.Time) (found []limiter.Slot, err error) {
	now, left := e.clock.Now(), d.Cost
	most := int64(min(max(e.committer.conn.maxBatch()-1, 1), maxSearched))
	all := slots{first: d.Limit.Oldest(now)}
	all.n = d.Limit.Slot(now) + d.Limit.MaxAhead() + 1 - all.first
	todo := all.split(min((all.n+most-1)/most, limiter.MaxSpan+1))
	for calls := 0; len(todo) > 0 && left > 0; calls++ {
		if calls > 0 && time.Now().After(until) {
			return nil, ErrTooFarBack
		}
		parts := todo[:min(int64(len(todo)), most)]
		units, err := e.unitsIn(ctx, d.charged(), parts)
		if err != nil {
			return nil, err
		}
		var finer []slots
		for i, part := range parts {
			switch {
			case units[i] <= 0 || left <= 0:
			case part.n > 1 || len(finer) > 0: // later slots are to be found first
				finer = append(finer, part.split(1)...)
			default:
				take := min(units[i], left)
				found = append(found, limiter.Slot{Index: part.first, Used: take})
				left -= take
			}
		}
		todo = append(finer, todo[len(parts):]...)
	}
	return found, nil
}

// unitsIn returns the units in ranges of slots.
func (e *Engine) unitsIn(ctx context.Context, d *Debit, parts []slots) (units []int64, err error) {
	claims := []direct{{Debit: d}} // each of the others empties the slots of a part
	for _, part := range parts {
		claims = append(claims, direct{d, limiter.Claim{Return: emptied(part.first, part.n)}})
	}
	grants, err := e.probeDirectly(ctx, claims...)
	if err != nil {
		return nil, err
	}
	for i := range parts {
		units = append(units, grants[i].Used-grants[i+1].Used)
	}
	return units, nil
}

// giveBack gives back units of one limit that were charged in some slots. First it takes them out of the note
// of charges: others may have given them back meanwhile.
func (e *Engine) giveBack(ctx context.Context, d *Debit, charged []limiter.Slot) (units int64, err error) {
	most := max(e.committer.conn.maxBatch()-1, 1)
	for len(charged) > 0 {
		some := charged[:min(len(charged), most)]
		charged = charged[len(some):]
		claims := []direct{{Debit: d.charged()}}
		for _, slot := range some {
			claims = append(claims,
				direct{claims[0].Debit,
					limiter.Claim{Return: limiter.Lease{At: slot.Index, Units: slot.Used, Used: slot.Used}}})
		}
		grants, err := e.claimDirectly(ctx, claims...)
		if err != nil {
			return units, err
		}
		var back []limiter.Slot
		for i, slot := range some {
			if slot.Used = grants[i].Used - grants[i+1].Used; slot.Used > 0 {
				back = append(back, slot)
				units += slot.Used
			}
		}
		if err := e.giveSlotsBack(d, back); err != nil {
			return units, err
		}
	}
	return units, nil
}

// giveSlotsBack gives back units of some slots to the store, and waits until it has them. Memory gives back its
// own units as well, so that it follows the store, which then has fewer in use.
func (e *Engine) giveSlotsBack(d *Debit, back []limiter.Slot) error {
	if len(back) == 0 {
		return nil
	}
	c := e.table.lock(e.table.add(kindOf(d.Limit), d.Limit.ID, d.Key))
	if c.limit() == nil {
		c.setLimitLocked(d.Limit)
	}
	b := e.committer.queue.join(func(b *batch) {
		for _, slot := range back {
			b.giveLocked(c, d.Limit, leaseOf(slot), slot.Used, usage{})
		}
		if settles := c.settlesLocked(e.clock.Now()); settles > 0 {
			b.giveLocked(c, d.Limit, c.takeLeaseLocked(), settles, usage{})
		}
		b.entries[b.gives-1].refunds = true
	})
	if b == nil {
		for _, slot := range back {
			e.committer.queue.postponeLocked(c, d.Limit, leaseOf(slot))
		}
	}
	c.Unlock()
	if b == nil {
		return nil
	}
	<-b.done
	if errors.Is(b.err, storage.ErrUnknownOutcome) {
		return b.err
	}
	return nil // after other errors the units are given back later
}

func leaseOf(slot limiter.Slot) limiter.Lease {
	return limiter.Lease{At: slot.Index, Units: slot.Used, Used: slot.Used}
}
