package report

import (
	"bytes"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/meter"
)

// This file counts verdicts in the metrics and for the history.

// count counts the verdict in the metrics and for the history.
func count(v *enforce.Verdict, err error) {
	h := v.Handler
	countShadowZones(v, err == nil && v.Passes())
	for i, z := range v.Declining {
		z.Meter.Requests.Inc()
		if i == 0 {
			z.Meter.Declined.Inc()
			z.Past.Refuse(history.Key{}, history.OverLimit)
		}
	}
	if v.Unzoned {
		h.None.Requests.Inc()
	}
	switch {
	case v.Decided:
		countDecision(v)
		countByKind(v)
	case v.Trapped():
		countByKind(v)
	case v.Busy != nil:
		countDecision(v)
		countBusy(v)
	case v.Outcome == enforce.Refused && v.RefusedBy != nil:
		by := v.RefusedBy
		by.Zone.Meter.Requests.Inc()
		by.Zone.Meter.Declined.Inc()
		by.Zone.Past.Refuse(history.Key{}, history.OverLimit)
		by.Past.Refuse(history.Key{}, history.OverLimit)
	case v.Outcome == enforce.Refused:
		h.RuleMeter.Banned.Inc()
	case v.Allowed && v.Passes():
		h.RuleMeter.Allowed.Inc()
	}
}

// countBusy counts a request that finds no free place.
func countBusy(v *enforce.Verdict) {
	z := v.Busy.Policy.Zone
	if !v.Counts(z) {
		z.Meter.Requests.Inc()
	}
	z.Meter.Declined.Inc()
	v.Busy.Policy.Meter.Refuse(engine.OverLimit)
	z.Past.Refuse(history.Key{}, history.OverLimit)
}

// countDecision counts a decision of the engine by zones and limits.
func countDecision(v *enforce.Verdict) {
	d := &v.Decision
	remember(v, d)
	notifyOfQuotas(v)
	var last *enforce.Zone
	for i, p := range v.Policies {
		if p.Zone != last {
			last = p.Zone
			last.Meter.Requests.Inc()
			last.Meter.Waited(d.Waited)
			if d.Degraded {
				last.Meter.ByMemory.Inc()
			}
		}
		switch {
		case d.Allowed:
			p.Meter.Allowed.Inc()
		case d.Reason == engine.Banned:
			p.Meter.Refuse(d.Reason)
		case i == d.Debit:
			p.Meter.Refuse(d.Reason)
			if d.Reason != engine.Abandoned {
				p.Zone.Meter.Declined.Inc()
			}
		}
	}
}

// Charged counts a decision about units that no request takes.
func Charged(cfg *enforce.Config, c enforce.Charges, d engine.Decision) {
	for i := range c.Debits {
		c.Debits[i].Counting = engine.Always // they are settled
	}
	countDecision(&enforce.Verdict{Handler: &enforce.Handler{Config: cfg}, Charges: c, Decision: d})
}

// GivenBack takes units that were given back out of the history.
func GivenBack(cfg *enforce.Config, c enforce.Charges, units int64) {
	var last *enforce.Zone
	for i, p := range c.Policies {
		if cfg.Ledger == nil {
			return
		}
		key := cfg.Ledger.Key(c.Debits[i].Key)
		if p.Zone != last {
			last = p.Zone
			last.Past.GiveBack(key, units)
		}
		p.Past.GiveBack(key, units)
	}
}

// countByKind counts a decision of the engine by the kind of its client.
func countByKind(v *enforce.Verdict) {
	if c := v.Client; c != nil && c.Identified && v.Handler.Metrics {
		meter.Client(c.Kind, &v.Decision)
	}
}

// remember counts a decision for the history: once for each zone, and for each limit that passes or
// refuses the request.
func remember(v *enforce.Verdict, d *engine.Decision) {
	ledger := v.Handler.Config.Ledger
	if ledger == nil || d.Reason == engine.Abandoned {
		return
	}
	var last *enforce.Zone
	var key history.Key
	for i, p := range v.Policies {
		if !d.Allowed && d.Reason != engine.Banned && i != d.Debit {
			continue
		}
		debit := &v.Debits[i]
		if !bytes.Equal(key.Text, debit.Key) {
			key = ledger.Key(debit.Key)
		}
		if p.Zone != last {
			last = p.Zone
			rememberIn(last.Past, key, enforce.UnitsOf(debit), d)
		}
		rememberIn(p.Past, key, enforce.UnitsOf(debit), d)
	}
}

func rememberIn(m *history.Meter, key history.Key, cost int64, d *engine.Decision) {
	if d.Allowed {
		m.Allow(key, cost)
	} else {
		m.Refuse(key, refusals[d.Reason])
	}
}

// refusals are the reasons of the engine and the handler in the history.
var refusals = [meter.Failed + 1]history.Refusal{engine.Blocked: history.Blocked, engine.Banned: history.Banned}

// requestVar is the request variable that says whether handlers have let the request in so far.
const requestVar = "rate_limit.let_in"

// countRequest counts the request when the first handler has decided about it. A request that a later
// handler doesn't let in is no longer let in, and what error routes do about it counts for nothing.
func countRequest(v *enforce.Verdict, err error) {
	m, why := &v.Handler.Requests, reasonOf(v, err)
	letIn, again := v.Vars[requestVar].(bool)
	if !again || letIn {
		sample(v, why, again)
	}
	if again && (!letIn || why == 0) {
		return
	}
	v.Vars[requestVar] = why == 0
	if !again {
		m.Received.Inc()
	}
	if why == 0 {
		m.Past.Allow(history.Key{}, 1)
		return
	}
	m.NotLetIn(why)
	if again {
		m.Past.Retract()
	}
	if meter.IsRefusal(why) {
		m.Past.Refuse(history.Key{}, refusals[why])
	}
}

// reasonOf returns why a request isn't let in, or 0.
func reasonOf(v *enforce.Verdict, err error) engine.Reason {
	switch {
	case err == answer.ErrAbandoned:
		return engine.Abandoned
	case err != nil:
		return meter.Failed
	case v.Refuses():
		return v.Refusal.Reason
	}
	return [...]engine.Reason{enforce.Denied: meter.Denied, enforce.Postponed: meter.Queued,
		enforce.TooEarly: meter.TooEarly}[v.Outcome]
}

// countPlaces counts the places that a passing request has taken.
func countPlaces(v *enforce.Verdict) {
	for c := range v.Entered {
		c.Policy.Meter.Allowed.Inc()
		countInZone(v, c.Policy.Zone)
	}
}

// countInZone counts a request in a zone that lets it in, unless a limit of the zone counts it.
func countInZone(v *enforce.Verdict, z *enforce.Zone) {
	if !v.Counts(z) {
		z.Meter.Requests.Inc()
		z.Past.Allow(history.Key{}, 0)
	}
}
