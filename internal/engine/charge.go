package engine // operators

import (
	"context"
	"errors"
	"fmt"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file charges units that no request takes: an application names them (decision 161).

// ChargeOnce decides about debits like [Engine.Decide], but memory alone charges nothing: while the
// store can't be used, it returns [ErrUnavailable]. Of all charges with one id one takes effect: repeated
// reports that another one did before. An id is a debit that uses up its limit, whose key has no other use. Its cost
// stands for the units of the charge: an id that was used up for others leads to [OtherUnitsError]. A nil id stands for
// none.
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
		repeated, err = e.peekID(ctx, id)
		return d, repeated, err
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
			noted = append(noted,
				direct{debit.charged(), limiter.Claim{Charge: limiter.Charge{At: p.at, Units: debit.Cost}}})
		}
		if debit.Pending != nil {
			debit.Quota = debit.Pending.Counted
		}
	}
	settleAll(debits, true)
	_, _ = e.claimDirectly(ctx, noted...) // without the note the units can't be given back
	return d, false, nil
}

// OtherUnitsError is the error of an id that was used up for another number of units.
type OtherUnitsError struct{ Cost int64 } // of the id, when it was used up

func (o *OtherUnitsError) Error() string { return fmt.Sprintf("the id was used for %d units", o.Cost) }

// idAnswer returns whether an id was used up before an answer of the store to a claim of it.
func idAnswer(id *Debit, g limiter.Grant) (used bool, err error) {
	if !g.Refused(limiter.Claim{Min: id.Cost}) {
		return false, nil
	}
	if g.Used != id.Cost {
		return false, &OtherUnitsError{g.Used}
	}
	return true, nil
}

// claimID claims an id, and reports whether it was used up before.
func (e *Engine) claimID(ctx context.Context, id *Debit) (used bool, err error) {
	if id == nil {
		return false, nil
	}
	claim := direct{id, limiter.Claim{Min: id.Cost, Want: id.Cost}}
	var grants []limiter.Grant
	err = e.atCommitter(ctx, func(cm *committer) error {
		grants, err = cm.claimDirectly(claim)
		if err == nil && grants[0].Units > 0 || errors.Is(err, storage.ErrUnknownOutcome) {
			cm.ids.add(id, cm.clock.Now())
		}
		return err
	})
	if err != nil {
		return false, err
	}
	return idAnswer(id, grants[0])
}

// peekID reports whether an id is used up.
func (e *Engine) peekID(ctx context.Context, id *Debit) (used bool, err error) {
	if id == nil {
		return false, nil
	}
	grants, err := e.probeDirectly(ctx, direct{id, limiter.Claim{Min: id.Cost, Want: id.Cost}})
	if err != nil {
		return false, err
	}
	return idAnswer(id, grants[0])
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
	err = e.atCommitter(ctx, func(cm *committer) error {
		grants, err = cm.claimDirectly(claims...)
		return err
	})
	return grants, err
}

// probeDirectly returns what claims would be granted in one transaction.
func (e *Engine) probeDirectly(ctx context.Context, claims ...direct) (grants []limiter.Grant, err error) {
	err = e.atCommitter(ctx, func(cm *committer) error {
		grants, err = cm.sendDirectly(claims, storage.Store.Probe)
		return err
	})
	return grants, err
}

// atCommitter makes the committer call a function, and waits for it even if ctx ends. Requests that wait go first,
// however many of these calls there are.
func (e *Engine) atCommitter(ctx context.Context, do func(cm *committer) error) error {
	return e.committer.queue.run(context.WithoutCancel(ctx), func() error {
		cm := &e.committer
		if b := cm.queue.takeDue(); b != nil {
			cm.commit(b)
		}
		if cm.degraded.Load() {
			return ErrUnavailable
		}
		return do(cm)
	})
}

func (cm *committer) claimDirectly(wanted ...direct) (grants []limiter.Grant, err error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	if grants, err = cm.sendDirectly(wanted, storage.Store.Claim); err != nil {
		cm.degrade(err)
	}
	return grants, err
}

// sendDirectly makes a call of the store with claims, within a term.
func (cm *committer) sendDirectly(wanted []direct,
	send func(storage.Store, context.Context, *storage.Term, []storage.Claim,
		[]limiter.Grant) error) (grants []limiter.Grant, err error) {
	grants = make([]limiter.Grant, len(wanted))
	_, err = cm.conn.inTerms(func(store storage.Store, term *storage.Term) error {
		claims := make([]storage.Claim, len(wanted))
		for i, w := range wanted {
			name, err := cm.conn.nameOf(w.Limit.ID, string(w.Key), w.Limit.Retention(), term, term.Time.Now)
			if err != nil {
				return err
			}
			claims[i] = storage.Claim{ID: w.Limit.ID, Key: name.Key, Former: name.Former, Limit: w.Limit.Rate,
				Claim: w.Claim}
			claims[i].Now = term.Time.Now
		}
		ctx, cancel := cm.conn.call()
		defer cancel()
		return send(store, ctx, term, claims, grants)
	})
	if err == nil {
		cm.writer.answers.Add(1)
	}
	return grants, err
}
