package engine // decision

import (
	"bytes"
	"context"
)

// maxShadows is the maximum number of shadow decisions that wait for the store. Further ones are
// made from memory alone, as in an outage (decision 84).
const maxShadows = 4096

// Shadow decides about a request that takes only these debits, and that passes regardless of the
// decision. It charges the same units as [Engine.Decide], records no violation, and does not wait.
// If Decide would wait for the store, Shadow changes nothing and reports false. Then
// [Engine.ShadowLater] decides.
func (e *Engine) Shadow(debits []Debit) (d Decision, decided bool) {
	var room [inlineDebits]held
	r := request{debits: debits, now: e.clock.Now()}
	r.applyClients(e)
	if !r.refuseAtOnce(e) {
		r.held = r.hold(e, room[:0])
		switch {
		case r.known && r.spend(e):
		case e.committer.degraded.Load():
			r.spendAlone(e)
		default:
			return Decision{}, false
		}
	}
	r.penalize(e)
	return r.conclude(e), true
}

// ShadowLater decides as Shadow does, after the store has answered. It does not wait for that: it
// passes the decision to later, with copies of the debits as they were decided.
//
// It calls later once, mostly on another goroutine. It does so before Close returns, unless the
// context of Close ends.
func (e *Engine) ShadowLater(debits []Debit, later func([]Debit, Decision)) {
	debits = copied(debits)
	wait := e.shadows.Add(1) <= maxShadows && e.committer.waiting.begin()
	decide := func() {
		defer e.shadows.Add(-1)
		later(debits, e.shadow(debits, wait))
	}
	if !wait {
		decide()
		return
	}
	go func() {
		defer e.committer.waiting.leave()
		decide()
	}()
}

// shadow decides as Decide does, or from memory if it must not wait.
func (e *Engine) shadow(debits []Debit, wait bool) Decision {
	var room [inlineDebits]held
	r := request{debits: debits, now: e.clock.Now()}
	r.applyClients(e)
	if !r.refuseAtOnce(e) {
		r.held = r.hold(e, room[:0])
		switch {
		case r.known && r.spend(e):
		case wait:
			r.decideSlowly(context.Background(), e)
		default:
			r.spendAlone(e)
		}
	}
	r.penalize(e)
	return r.conclude(e)
}

// spendAlone decides without the store.
func (r *request) spendAlone(e *Engine) {
	r.late = true
	r.spendOrClaim(e, false)
}

// copied returns copies of debits, for a separate decision.
func copied(debits []Debit) []Debit {
	copies := make([]Debit, len(debits))
	for i := range debits {
		d, c := &debits[i], &copies[i]
		c.Limit, c.Key, c.Cost, c.Counting, c.Foreign, c.Penalty = d.Whole(), bytes.Clone(d.Key), d.Cost, d.Counting, d.Foreign, d.Penalty
		if d.Scaling != nil {
			c.Limit, c.Client, c.Scaling = d.Scaling.Levels[0], d.Client.copied(), d.Scaling
		}
	}
	return copies
}

// copied returns a copy of a client and its parent.
func (c *Client) copied() *Client {
	if c == nil {
		return nil
	}
	return &Client{Key: bytes.Clone(c.Key), Parent: c.Parent.copied()}
}
