package enforce

import (
	"errors"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/gate"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// maxDelayed is the most requests of a key that wait.
const maxDelayed = 1000

// decideInTurn makes the engine decide. A request that a zone delays waits in line for its units,
// behind earlier requests of its key. The result is false if there are no counts to decide by.
func (e *Evaluation) decideInTurn() (d engine.Decision, ok bool) {
	by := e.Charges.delayedBehind()
	if by < 0 {
		if d, ok = e.decideNow(true); !ok || !e.Charges.delays(&d) {
			return e.decideAtLast(d, ok)
		}
		by = d.Debit
	}
	return e.decideInLine(by)
}

// decideInLine decides about a request that a debit delays, when it is its turn.
func (e *Evaluation) decideInLine(by int) (d engine.Decision, ok bool) {
	p := e.Policies[by]
	line, key, rule := p.Zone.Line, p.lineOf(e.Debits[by].Key), p.delayRule()
	if !e.body.hear(&e.Verdict) {
		return engine.Decision{Reason: engine.Abandoned}, true
	}
	came, _ := e.decider.Clock()
	if _, err := e.awaitPlace(p.Zone, line, key, rule); errors.Is(err, gate.ErrFull) {
		return e.decideNow(false)
	} else if err != nil {
		return engine.Decision{Reason: engine.Abandoned}, true
	}
	if e.forecasts {
		return e.forecastDelay()
	}
	defer line.Leave(key)
	for {
		_, now := e.decider.Clock()
		if d, ok = e.decideNow(true); !ok || !e.Charges.delays(&d) || came.Add(rule.Wait).Sub(now) < d.Retry {
			return e.decideAtLast(d, ok)
		}
		if !e.decider.Sleep(e.Http.Context(), d.Retry) {
			return engine.Decision{Reason: engine.Abandoned}, true
		}
	}
}

// forecastDelay forecasts the decision about a request at the head of its line.
func (e *Evaluation) forecastDelay() (d engine.Decision, ok bool) {
	d, ok = e.decideNow(true)
	if !ok || !e.Charges.delays(&d) {
		return e.decideAtLast(d, ok)
	}
	e.Waits, e.Wait = true, d.Retry
	return engine.Decision{Allowed: true}, true
}

// decideNow makes the engine decide about a request. waits tells whether the request will wait in
// its zones with delay if it is refused.
func (e *Evaluation) decideNow(waits bool) (engine.Decision, bool) {
	for i, p := range e.Policies {
		e.Debits[i].Waits = waits && p.Zone.Line != nil
	}
	return e.decider.Decide(e.Http.Context(), e.Subject, e.Debits)
}

// decideAtLast decides again about a request that is refused although its zone delays: that is a
// violation like any other.
func (e *Evaluation) decideAtLast(d engine.Decision, ok bool) (engine.Decision, bool) {
	over := d.Reason == engine.OverLimit || d.Reason == engine.Blocked
	if ok && !d.Allowed && over && e.Debits[d.Debit].Waits {
		return e.decideNow(false)
	}
	return d, ok
}

// delayedBehind returns the debit that others already wait for, or -1. A request must not overtake
// them.
func (c *Charges) delayedBehind() int {
	for i, p := range c.Policies {
		if p.Zone.Line != nil && p.Zone.Line.IsBusy(p.lineOf(c.Debits[i].Key)) {
			return i
		}
	}
	return -1
}

// delays reports whether a zone delays a request instead of refusing it: if the wait is not longer
// than allowed.
func (c *Charges) delays(d *engine.Decision) bool {
	if d.Allowed || d.Reason != engine.OverLimit && d.Reason != engine.Blocked || d.Degraded {
		return false
	}
	z := c.Policies[d.Debit].Zone
	return z.Line != nil && d.Retry != limiter.Never && d.Retry <= z.MaxDelay
}

// lineOf returns the line in which requests of a key wait for units of the limit.
func (p *Policy) lineOf(key []byte) string { return p.Name + "\x00" + string(key) }

// delayRule returns how many requests may wait: as many as units may become free meanwhile. Those of a
// window may all become free at once.
func (p *Policy) delayRule() gate.Rule {
	free := int64(float64(p.Amount())*float64(p.Zone.MaxDelay)/float64(p.Window())) + 1
	if p.CountsSlots() {
		free += p.Amount()
	}
	return gate.Rule{Most: 1, Wait: p.Zone.MaxDelay, Queue: int(min(free, maxDelayed))}
}
