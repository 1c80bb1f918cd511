package enforce

import (
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/caddy-tally/caddy-tally/internal/outcomes"
	"github.com/caddy-tally/caddy-tally/internal/settle"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/instance"
)

// This file decides by shadow limits. Each one decides alone, about the requests that all enforced
// limits of the handler pass, so it decides as if it were the next enforced limit. Only the
// operator sees the decisions.

// shadowDeny notes that a zone in shadow would deny the request, regardless of counts.
func (z *Zone) shadowDeny(e *Evaluation) {
	e.Shadows.add(z.ShadowRefusal, nil, 1) // more than the limit ever has
}

// chargeShadows collects the debits of the shadow limits of a zone.
func (z *Zone) chargeShadows(e *Evaluation, set *LimitSet, key []byte, cost int64) {
	subject := z.shadowSubject(e)
	for _, p := range set.Shadows {
		e.Client.scale(e.Shadows.add(p, key, cost), p, subject)
		if z.Per == PerClient {
			e.Client.chargeShared(&e.Shadows, set.Elsewhere.Shadows, set.Networks.Shadows, p, cost)
		}
	}
}

// shadowSubject returns the subject whose record scales the shadow limits of a zone, or nil. A
// handler without an enforced zone that counts clients hasn't determined it yet.
func (z *Zone) shadowSubject(e *Evaluation) *engine.Client {
	switch {
	case e.Subject != nil || !z.CountsClients():
		return e.Subject
	case z.Per == PerAPIKey && e.authenticate(e.Handler.Config).Name == "":
		return nil
	}
	return e.identify().subject
}

// decideShadows makes shadow limits decide about a request, if the enforced ones pass it.
func (e *Evaluation) decideShadows(passes bool) {
	if e.forecasts {
		e.forecastShadows(passes)
		return
	}
	if !passes {
		return
	}
	inst := e.Handler.Config.Use()
	if inst == nil { // its configuration never ran
		return
	}
	v, report := e.ShadowVerdicts(), func(d *ShadowDecision) { e.Handler.Config.Reporter.Shadow(&e.Verdict, d) }
	e.tryPlaces(v, report)
	for from := 0; from < len(e.Shadows.Debits); {
		to := e.Shadows.end(from)
		debits, policies := e.Shadows.Debits[from:to], e.Shadows.Policies[from:to]
		if d, decided := inst.Shadow(debits); decided {
			reportShadow(report, v, ShadowDecision{Decision: d, Policies: policies, Debits: debits})
		} else {
			e.decideShadowLater(inst, v, slices.Clone(policies), debits)
		}
		from = to
	}
}

// forecastShadows forecasts the decisions of shadow limits about a request that passes.
func (e *Evaluation) forecastShadows(passes bool) {
	if !passes {
		return
	}
	v := e.ShadowVerdicts()
	var last *Policy
	for _, p := range e.tried {
		now := p.rule
		now.Wait = 0
		if _, _, err := p.Gate.Forecast(p.key, netip.Prefix{}, now); err != nil && p.Policy != last {
			last = p.Policy
			v.Add(last)
		}
	}
	for from := 0; from < len(e.Shadows.Debits); {
		to := e.Shadows.end(from)
		if d, ok := e.decider.Decide(e.Http.Context(), nil, e.Shadows.Debits[from:to]); ok && !d.Allowed &&
			d.Reason != engine.Abandoned {
			v.Add(e.Shadows.Policies[from+d.Debit])
		}
		from = to
	}
}

// reportShadow adds a decision of a shadow limit to the verdicts, and reports it.
func reportShadow(to func(*ShadowDecision), all *ShadowVerdicts, d ShadowDecision) {
	if !d.Allowed {
		d.First, d.FirstOfZone = all.Add(d.Policies[d.Debit])
	}
	to(&d)
}

// ShadowDecision is a decision of a shadow limit about a request.
type ShadowDecision struct {
	engine.Decision
	Policies    []*Policy      // the limit, and those that share it
	Debits      []engine.Debit // of each of them; nil for places
	First       bool           // it is the first one that would refuse the request
	FirstOfZone bool           // of its zone
}

// decideShadowLater makes a shadow limit decide about the request when the store has answered, while the
// request continues.
func (e *Evaluation) decideShadowLater(inst *instance.Instance, v *ShadowVerdicts, policies []*Policy,
	debits []engine.Debit) {
	report := e.Handler.Config.Reporter.ShadowLater(&e.Verdict)
	var open *settle.Pending
	if debits[0].Counting != engine.Always {
		open = e.opened()
		open.AwaitLate()
	}
	done := v.Await(policies[0].Zone)
	inst.ShadowLater(debits, func(debits []engine.Debit, d engine.Decision) {
		defer done()
		if d.Reason == engine.Abandoned {
			return
		}
		reportShadow(report, v, ShadowDecision{Decision: d, Policies: policies, Debits: debits})
		if d.Allowed {
			addPending(open, policies, debits)
		}
	})
}

// ShadowVerdicts are the decisions of shadow limits about a request. They may be used after the
// request has ended, by any number of goroutines.
type ShadowVerdicts struct {
	mu        sync.Mutex
	Zones     []*Zone       // guarded by mu: zones with deciding shadow limits
	refusedBy []*Policy     // guarded by mu: the limits that would have refused it
	waits     []shadowAwait // guarded by mu: pending decisions
	room      [2]*Zone      // initial storage of Zones
}

// shadowAwait is a decision that waits for the store.
type shadowAwait struct {
	zone *Zone
	done chan struct{} // closed when the decision is made
}

// shadowVar is the request variable that holds the verdicts of all handlers.
const shadowVar = "rate_limit.shadow"

// ShadowVerdicts returns the verdicts about the request, to which shadow limits add theirs.
func (v *Verdict) ShadowVerdicts() *ShadowVerdicts {
	all, ok := v.Vars[shadowVar].(*ShadowVerdicts)
	if !ok {
		all = new(ShadowVerdicts)
		all.Zones = all.room[:0]
		v.Vars[shadowVar] = all
		v.Repl.Map(all.placeholder)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	decides := func(z *Zone) {
		if n := len(all.Zones); n == 0 || all.Zones[n-1] != z {
			all.Zones = append(all.Zones, z)
		}
	}
	for _, p := range v.Shadows.Policies {
		decides(p.Zone)
	}
	for _, p := range v.tried {
		decides(p.Policy.Zone)
	}
	return all
}

// Add adds a limit that would have refused the request. It reports whether it is the first one, and the
// first one of its zone.
func (v *ShadowVerdicts) Add(by *Policy) (first, ofZone bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	ofZone = !slices.ContainsFunc(v.refusedBy, func(p *Policy) bool { return p.Zone == by.Zone })
	v.refusedBy = append(v.refusedBy, by)
	return len(v.refusedBy) == 1, ofZone
}

// Await notes that a zone's decision is pending until done is called.
func (v *ShadowVerdicts) Await(z *Zone) (done func()) {
	a := shadowAwait{z, make(chan struct{})}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waits = append(v.waits, a)
	return func() { close(a.done) }
}

// All returns the limits that would have refused the request. It waits for pending decisions, at
// most as long as requests wait for the store.
func (v *ShadowVerdicts) All() []*Policy {
	v.awaitThose(func(*Zone) bool { return true })
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.refusedBy)
}

// awaitThose waits for the decisions of some zones.
func (v *ShadowVerdicts) awaitThose(counts func(*Zone) bool) {
	v.mu.Lock()
	waits := slices.Clone(v.waits)
	v.mu.Unlock()
	for _, w := range waits {
		if counts(w.zone) {
			<-w.done
		}
	}
}

// namesOf returns the names of a zone's limits that would have refused the request, or false if no
// shadow limit of the zone applies. It waits as [ShadowVerdicts.All] does.
func (v *ShadowVerdicts) namesOf(name string) (names []string, decides bool) {
	isNamed := func(z *Zone) bool { return z.Name == name }
	v.awaitThose(isNamed)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range v.refusedBy {
		if isNamed(p.Zone) {
			names = append(names, p.Name)
		}
	}
	return names, slices.ContainsFunc(v.Zones, isNamed)
}

// nameExceeded sets a header field of the request that names the exceeded limits that let it pass.
func (v *Verdict) nameExceeded() {
	if len(v.Handler.PassFields) == 0 {
		return
	}
	verdicts, ok := v.Vars[shadowVar].(*ShadowVerdicts)
	for _, z := range v.Handler.Zones {
		if z.PassField == "" || !ok {
			continue
		}
		if names, _ := verdicts.namesOf(z.Name); len(names) > 0 {
			v.Http.Header.Add(z.PassField, strings.Join(names, ", "))
		}
	}
}

// WouldRefuseSuffix ends the name of a zone's placeholder.
const WouldRefuseSuffix = "." + outcomes.WouldRefuse

// placeholder resolves `http.rate_limit.<zone>.would_refuse`: the names of the limits that would
// have refused the request.
func (v *ShadowVerdicts) placeholder(key string) (any, bool) {
	zone, ours := strings.CutPrefix(key, OurPlaceholders)
	zone, asked := strings.CutSuffix(zone, WouldRefuseSuffix)
	if !ours || !asked {
		return nil, false
	}
	names, decides := v.namesOf(zone)
	return strings.Join(names, ", "), decides
}

// OurPlaceholders is the prefix of our placeholders.
const OurPlaceholders = "http.rate_limit."
