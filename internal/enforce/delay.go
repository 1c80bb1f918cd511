package enforce

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/gate"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// maxDelayed is how many requests of a key wait at most.
const maxDelayed = 1000

// decideInTurn has the engine decide. A request that a zone delays waits in line for its units, behind
// those of its key that came before. The result is false if there are no counts to decide by.
func (e *Evaluation) decideInTurn() (d engine.Decision, ok bool) {
	by := e.delayedBehind()
	if by < 0 {
		if d, ok = e.decideNow(true); !ok || !e.delays(&d) {
			return e.decideAtLast(d, ok)
		}
		by = d.Debit
	}
	p := e.Policies[by]
	line, key, rule := p.Zone.Line, p.lineOf(e.Debits[by].Key), p.delayRule()
	ends := time.Now().Add(rule.Wait)
	if _, err := line.Enter(e.Http.Context(), key, rule); errors.Is(err, gate.ErrFull) {
		return e.decideNow(false)
	} else if err != nil {
		return engine.Decision{Reason: engine.Abandoned}, true
	}
	defer line.Leave(key, rule)
	for {
		if d, ok = e.decideNow(true); !ok || !e.delays(&d) || time.Until(ends) < d.Retry {
			return e.decideAtLast(d, ok)
		}
		if !sleep(e.Http.Context(), d.Retry) {
			return engine.Decision{Reason: engine.Abandoned}, true
		}
	}
}

// decideNow has the engine decide about a request that waits in its zones with delay if it is refused, or
// doesn't.
func (e *Evaluation) decideNow(waits bool) (engine.Decision, bool) {
	for i, p := range e.Policies {
		e.Debits[i].Waits = waits && p.Zone.Line != nil
	}
	return e.Handler.App.decide(e.Http.Context(), e.Subject, e.Debits)
}

// decideAtLast decides again about a request that is refused although its zone delays: that is a
// violation as any other.
func (e *Evaluation) decideAtLast(d engine.Decision, ok bool) (engine.Decision, bool) {
	over := d.Reason == engine.OverLimit || d.Reason == engine.Blocked
	if ok && !d.Allowed && over && e.Debits[d.Debit].Waits {
		return e.decideNow(false)
	}
	return d, ok
}

// delayedBehind returns the debit for which others wait already, or -1: nobody is to overtake them.
func (e *Evaluation) delayedBehind() int {
	for i, p := range e.Policies {
		if p.Zone.Line != nil && p.Zone.Line.IsBusy(p.lineOf(e.Debits[i].Key)) {
			return i
		}
	}
	return -1
}

// delays reports whether a zone has the request wait that a decision refuses: not for longer than it
// may.
func (e *Evaluation) delays(d *engine.Decision) bool {
	if d.Allowed || d.Reason != engine.OverLimit && d.Reason != engine.Blocked || d.Degraded {
		return false
	}
	z := e.Policies[d.Debit].Zone
	return z.Line != nil && d.Retry != limiter.Never && d.Retry <= z.MaxDelay
}

// lineOf returns the line in which requests of a key wait for units of the limit.
func (p *Policy) lineOf(key []byte) string { return p.Name + "\x00" + string(key) }

// delayRule says how many requests wait: as many as units may become free while they do.
func (p *Policy) delayRule() gate.Rule {
	free := p.Amount()
	if p.Algorithm() == limiter.TokenBucket {
		free = int64(float64(p.Amount())*float64(p.Zone.MaxDelay)/float64(p.Window())) + 1
	}
	return gate.Rule{Most: 1, Wait: p.Zone.MaxDelay, Queue: int(min(free, maxDelayed))}
}

// sleep waits, and reports whether the request is still wanted then.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
