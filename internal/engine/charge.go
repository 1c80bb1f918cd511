package engine

import (
	"context"
	"errors"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file charges units that no request takes: an application names them (decision 161).

// ChargeOnce decides about debits like [Engine.Decide], but memory alone charges nothing: while the
// store can't be used, it returns [ErrUnavailable]. Of all charges with one id, a debit of a limit of 1
// whose key has no other use, one takes effect: repeated reports that another one did before. A nil id stands for none.
//
// The id is claimed last, so an id that is used up stands for units that were charged. A process that ends
// before has charged units for nothing, and the charge can be repeated. The same holds after an error that wraps
// [storage.ErrUnknownOutcome]; after other errors nothing is charged.
func (e *Engine) ChargeOnce(ctx context.Context, debits []Debit, id *Debit) (d Decision, repeated bool, err error) {
	for i := range debits {
		debits[i].Counting = Held
	}
	d = e.Decide(ctx, nil, debits)
	switch {
	case d.Degraded || d.Reason == Abandoned:
		settleAll(debits, false)
		return d, false, ErrUnavailable
	case !d.Allowed && id != nil:
		used, err := e.claimDirectly(ctx, direct{Debit: id})
		return d, err == nil && used[0].Used > 0, err
	case !d.Allowed:
		return d, false, nil
	}
	if repeated, err = e.claimID(ctx, id); err != nil || repeated {
		settleAll(debits, errors.Is(err, storage.ErrUnknownOutcome))
		return d, repeated, err
	}
	var noted []direct
	for i := range debits {
		debit := &debits[i]
		if p := debit.Pending; p != nil && p.limit.CountsSlots() {
			noted = append(noted, direct{debit.charged(), limiter.Claim{Charge: limiter.Charge{At: p.at, Units: debit.Cost}}})
		}
		if debit.Pending != nil {
			debit.Quota = debit.Pending.Counted
		}
	}
	settleAll(debits, true)
	_, _ = e.claimDirectly(ctx, noted...) // without the note the units can't be given back
	return d, false, nil
}

// GiveBack gives back units that [Engine.ChargeOnce] has charged and that still count, of each debit at
// most its cost. It returns the most that it gave back to a limit. The limits have slots. Units are given back to
// the slots that they were charged in. Of calls with one id one takes effect, as of charges; the id is claimed first,
// so that nothing is given back twice.
func (e *Engine) GiveBack(ctx context.Context, debits []Debit, id *Debit) (units int64, repeated bool, err error) {
	if repeated, err = e.claimID(ctx, id); err != nil || repeated {
		return 0, repeated, err
	}
	for i := range debits {
		back, err := e.giveBack(ctx, &debits[i])
		if units = max(units, back); err != nil {
			return units, false, err
		}
	}
	return units, false, nil
}

// claimID claims an id, and reports whether it was used up before.
func (e *Engine) claimID(ctx context.Context, id *Debit) (used bool, err error) {
	if id == nil {
		return false, nil
	}
	grants, err := e.claimDirectly(ctx, direct{id, limiter.Claim{Min: 1, Want: 1}})
	return err == nil && grants[0].Units == 0, err
}

// maxBackSlots bounds the slots that are searched for units to give back.
const maxBackSlots = 256

// giveBack gives back units of one limit, those of the latest slots first.
func (e *Engine) giveBack(ctx context.Context, d *Debit) (units int64, err error) {
	charged, now := d.charged(), d.Limit.Slot(e.clock.now())
	ahead, past := d.Limit.MaxAhead(), d.Limit.Slots()
	for i := int64(0); i <= ahead+past && i < maxBackSlots && units < d.Cost; i++ {
		slot := now - i
		if i > past {
			slot = now + i - past // leases that are charged ahead are rare
		}
		// Between the two claims of a batch nobody else gives back.
		grants, err := e.claimDirectly(ctx, direct{Debit: charged},
			direct{charged, limiter.Claim{Return: limiter.Lease{At: slot, Units: d.Cost - units, Used: d.Cost - units}}})
		if err != nil {
			return units, err
		}
		if back := grants[0].Used - grants[1].Used; back > 0 {
			e.giveSlotBack(d, slot, back)
			units += back
		}
		if grants[1].Used == 0 {
			break
		}
	}
	return units, nil
}

// giveSlotBack gives back units of a slot to the store, and waits until it has them.
func (e *Engine) giveSlotBack(d *Debit, slot, units int64) {
	c := e.table.lock(e.table.add(kindOf(d.Limit), d.Limit.ID, d.Key))
	if c.limit() == nil {
		c.setLimitLocked(d.Limit)
	}
	lease := limiter.Lease{At: slot, Units: units, Used: units}
	b := e.committer.queue.join(func(b *batch) { b.giveLocked(c, d.Limit, lease, units) })
	if b == nil {
		e.committer.queue.postponeLocked(c, d.Limit, lease)
	}
	c.mu.Unlock()
	if b != nil {
		<-b.done
	}
}

func settleAll(debits []Debit, counts bool) {
	for i := range debits {
		if p := debits[i].Pending; p != nil {
			p.Settle(counts)
		}
	}
}

// charged returns the note of the units that charges of a debit's key have taken from its limit and not
// given back, by slots. It is a count of a limit of its own that refuses nothing.
func (d *Debit) charged() *Debit {
	limit := *d.Limit
	limit.ID ^= chargedID
	return &Debit{Limit: &limit, Key: d.Key}
}

// chargedID makes the ID of a limit into that of its charged units.
const chargedID storage.LimitID = 0xc4a26ed0_0c4a26ed

// direct is a claim of a debit's key that memory holds nothing of.
type direct struct {
	*Debit
	limiter.Claim
}

// claimDirectly sends claims to the store in one transaction, and waits for its answer even if ctx ends.
func (e *Engine) claimDirectly(ctx context.Context, claims ...direct) (grants []limiter.Grant, err error) {
	if len(claims) == 0 {
		return nil, nil
	}
	grants = make([]limiter.Grant, len(claims))
	return grants, e.committer.queue.run(context.WithoutCancel(ctx), func() error {
		return e.committer.claimDirectly(claims, grants)
	})
}

func (cm *committer) claimDirectly(wanted []direct, grants []limiter.Grant) error {
	_, err := cm.conn.inTerms(func(in storage.Store, term *storage.Term) error {
		claims := make([]storage.Claim, len(wanted))
		for i, w := range wanted {
			name, err := cm.conn.nameOf(w.Limit.ID, string(w.Key), w.Limit.Retention(), term, term.Time.Now)
			if err != nil {
				return err
			}
			claims[i] = storage.Claim{ID: w.Limit.ID, Key: name.Key, Former: name.Former, Limit: w.Limit.Rate, Claim: w.Claim}
			claims[i].Now = term.Time.Now
		}
		ctx, cancel := cm.conn.call()
		defer cancel()
		return in.Claim(ctx, claims, grants)
	})
	if err != nil {
		cm.degrade(err)
		return err
	}
	cm.writer.answers.Add(1)
	return nil
}
