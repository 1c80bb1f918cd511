package tally

import (
	"slices"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// This file has what shadow limits decide. Each one decides alone, about the requests that all
// enforced limits of the handler let pass, so that its decisions are those that it would make
// as the next limit that is enforced. They are known to the operator only.

// shadowDeny notes that a zone in shadow would deny the request, whatever was counted.
func (e *evaluation) shadowDeny(z *zone) {
	e.shadows.add(z.denied, nil, 1) // more than it ever has
}

// chargeShadows collects the debits of the shadow limits of a zone.
func (e *evaluation) chargeShadows(z *zone, set *limitSet, key []byte, cost int64) {
	subject := e.shadowSubject(z)
	for _, p := range set.shadows {
		e.scale(e.shadows.add(p, key, cost), p, subject)
		if z.per == perClient {
			e.chargeSharedShadows(p, set, cost)
		}
	}
}

// shadowSubject returns whose record scales the shadow limits of a zone, or nil. A handler whose
// zones that count clients are all in shadow has not looked for it.
func (e *evaluation) shadowSubject(z *zone) *engine.Client {
	switch {
	case e.subject != nil || !z.countsClients():
		return e.subject
	case z.per == perAPIKey && e.authenticate(e.handler.app).name == "":
		return nil
	}
	return e.identify().subject
}

// chargeSharedShadows adds the debits of what the client shares with others of a shadow limit.
func (e *evaluation) chargeSharedShadows(own *policy, set *limitSet, cost int64) {
	c := e.client
	if c.usesElsewhere() {
		for _, p := range set.elsewhere.shadows {
			if p.of == own {
				e.shadows.add(p, c.Key, cost)
			}
		}
	}
	if !c.usesNetwork() {
		return
	}
	for _, p := range set.networks.shadows {
		if p.of != own {
			continue
		}
		d := e.shadows.add(p, c.networkSubject.Key, cost)
		if p.scaling != nil {
			d.Client, d.Scaling = &c.networkSubject, p.scaling
		}
	}
}

// decideShadows has shadow limits decide about a request of which the enforced ones have made
// an outcome.
func (e *evaluation) decideShadows(o outcome) {
	e.countShadowZones(o)
	if o != passed && o != counted {
		return
	}
	h := e.handler.app.use()
	if h == nil { // its configuration never ran
		return
	}
	v := e.shadowVerdicts()
	for from := 0; from < len(e.shadows.debits); {
		to := e.shadows.end(from)
		debits, policies := e.shadows.debits[from:to], e.shadows.policies[from:to]
		if d, decided := h.Shadow(debits); decided {
			e.noteShadow(v, policies, debits, d)
		} else {
			e.decideShadowLater(h, v, slices.Clone(policies), debits)
		}
		from = to
	}
}

// countShadowZones counts the request for zones of which only shadow limits hold for it. The
// others are counted with the enforced ones.
func (e *evaluation) countShadowZones(o outcome) {
	ledger := e.handler.app.ledger
	var last *zone
	for i, p := range e.shadows.policies {
		if p.zone == last || len(p.set.policies) > 0 {
			continue
		}
		last = p.zone
		last.meter.Requests.Inc()
		if ledger != nil && (o == passed || o == counted) {
			last.past.Allow(ledger.Key(e.shadows.debits[i].Key), unitsOf(&e.shadows.debits[i]))
		}
	}
}

// noteShadow counts a decision of a shadow limit, logs it if it would have refused the request,
// and adds it to the verdicts about the request.
func (e *evaluation) noteShadow(v *shadowVerdicts, policies []*policy, debits []engine.Debit, d engine.Decision) {
	e.handler.app.countShadow(policies, debits, d)
	if d.Allowed {
		return
	}
	by := policies[d.Debit]
	v.wouldRefuse(by)
	e.handler.app.DecisionLog.wouldRefuse(e.describe, by, d)
}

// countShadow counts a decision of a shadow limit, in metrics and for the history.
func (a *shared) countShadow(policies []*policy, debits []engine.Debit, d engine.Decision) {
	for i, p := range policies {
		switch {
		case d.Allowed:
			p.meter.Allowed.Inc()
		case i == d.Debit:
			p.meter.WouldRefuse.Inc()
		default:
			continue
		}
		if a.ledger == nil {
			continue
		}
		if key := a.ledger.Key(debits[i].Key); d.Allowed {
			p.past.Allow(key, unitsOf(&debits[i]))
		} else {
			p.past.WouldRefuse(key)
		}
	}
}

// decideShadowLater has a shadow limit decide about the request when the store has answered. The
// request goes on meanwhile, so what is logged of it is copied.
func (e *evaluation) decideShadowLater(h *instance.Instance, v *shadowVerdicts, policies []*policy, debits []engine.Debit) {
	app := e.handler.app
	var described []zap.Field
	if app.DecisionLog != nil {
		described = e.describe()
	}
	var open *pending
	if debits[0].Counting != engine.Always {
		open = e.opened()
	}
	done := v.await(policies[0].zone)
	h.ShadowLater(debits, func(debits []engine.Debit, d engine.Decision) {
		defer done()
		if d.Reason == engine.Abandoned {
			return
		}
		app.countShadow(policies, debits, d)
		if d.Allowed {
			open.addAll(policies, debits)
			return
		}
		by := policies[d.Debit]
		v.wouldRefuse(by)
		app.DecisionLog.wouldRefuse(func() []zap.Field { return described }, by, d)
	})
}
