package tally

import "github.com/caddy-tally/caddy-tally/limiter/engine"

// This file has which debits of a request await the status of its answer.

// pending returns what awaits the status of the answer, which says in a response what is left, or
// nil if nothing does.
func (e *evaluation) pending(in *response) *pending {
	e.await(e.policies, e.debits)
	e.await(e.shadows.policies, e.shadows.debits)
	if e.open != nil && in != nil {
		e.open.answer = in
	}
	return e.open
}

func (e *evaluation) await(policies []*policy, debits []engine.Debit) {
	for i := range debits {
		if open := debits[i].Pending; open != nil {
			e.opened().add(policies[i], open)
		}
	}
}

// opened returns what awaits the status, made if there is none.
func (e *evaluation) opened() *pending {
	if e.open == nil {
		e.open = newPending(e.handler.app)
	}
	return e.open
}

// unitsOf returns how many units a debit uses up as far as is known.
func unitsOf(d *engine.Debit) int64 {
	if d.Counting != engine.Always {
		return 0
	}
	return d.Cost
}
