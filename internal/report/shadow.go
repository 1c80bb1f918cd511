package report

import (
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/history"
)

// countShadowZones counts the request for zones in which only shadow limits apply to it. The others
// are counted with the enforced ones.
func countShadowZones(v *enforce.Verdict, passes bool) {
	ledger := v.Handler.Config.Ledger
	var last *enforce.Zone
	for i, p := range v.Shadows.Policies {
		if p.Zone == last || len(p.Set.Policies) > 0 {
			continue
		}
		last = p.Zone
		last.Meter.Requests.Inc()
		if ledger != nil && passes {
			last.Past.Allow(ledger.Key(v.Shadows.Debits[i].Key), enforce.UnitsOf(&v.Shadows.Debits[i]))
		}
	}
}

// Shadow implements enforce.Reporter.
func (r *Reporter) Shadow(v *enforce.Verdict, d *enforce.ShadowDecision) {
	if d.Debits == nil {
		countInZone(v, d.Policies[0].Zone)
	}
	r.shadow(v.Handler.Config.Ledger, d, func() []zap.Field { return describe(v) })
}

// ShadowLater implements enforce.Reporter.
func (r *Reporter) ShadowLater(v *enforce.Verdict) func(*enforce.ShadowDecision) {
	var fields []zap.Field
	if r.Decisions != nil {
		fields = describe(v)
	}
	ledger := v.Handler.Config.Ledger
	return func(d *enforce.ShadowDecision) { r.shadow(ledger, d, func() []zap.Field { return fields }) }
}

// shadow counts a decision of a shadow limit, and logs the request if the limit would have refused it. The
// request is counted once, and once per zone.
func (r *Reporter) shadow(ledger *history.Ledger, d *enforce.ShadowDecision, describe func() []zap.Field) {
	countShadow(ledger, d)
	if d.Allowed {
		return
	}
	by := d.Policies[d.Debit]
	if d.First {
		by.Zone.Meter.Request.Inc()
		by.Zone.Requests.WouldRefuse(history.Key{})
	}
	if d.FirstOfZone {
		by.Zone.Meter.WouldRefuse.Inc()
		by.Zone.Past.WouldRefuse(history.Key{})
	}
	r.Decisions.wouldRefuse(describe, by, d.Decision)
}

// countShadow counts a decision of a shadow limit, in metrics and for the history.
func countShadow(ledger *history.Ledger, d *enforce.ShadowDecision) {
	for i, p := range d.Policies {
		switch {
		case d.Allowed:
			p.Meter.Allowed.Inc()
		case i == d.Debit:
			p.Meter.WouldRefuse.Inc()
		default:
			continue
		}
		if ledger == nil || d.Debits == nil {
			continue
		}
		if key := ledger.Key(d.Debits[i].Key); d.Allowed {
			p.Past.Allow(key, enforce.UnitsOf(&d.Debits[i]))
		} else {
			p.Past.WouldRefuse(key)
		}
	}
}
