package enforce

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// ServeHTTP passes a request that is within all limits, and refuses others.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if h.App.Session.Serves(r.URL.Path) {
		return h.serveSession(w, r)
	}
	result, on, err := h.evaluate(r)
	if err != nil {
		return h.fail(w, r, err)
	}
	switch result.Outcome {
	case Passed, Counted:
		return on.serve(w, r, h.watchPlaceholders(on.empty, next))
	case Refused:
		return h.refuse(w, r, result.Response)
	case challenged:
		return result.Response.Refusal.exchange.challenge(w, result.Response)
	case postponed:
		return h.postpone(w, r, result.Waiting)
	case tooEarly:
		return AskAgain(w, r)
	default: // denied
		return h.deny(w, r, result.Denial)
	}
}

// EnforcerOf returns the part of a handler that decides about requests, or nil if the handler isn't
// ours.
func EnforcerOf(handler caddyhttp.MiddlewareHandler) *Handler {
	if h, ok := handler.(interface{ Enforcer() *Handler }); ok {
		return h.Enforcer()
	}
	return nil
}

// evaluate decides about a request, and returns the passage of a passing one. The error says why no
// decision was possible.
func (h *Handler) evaluate(r *http.Request) (result, passage, error) {
	e := h.Begin(r)
	defer e.Release()
	on := passage{}
	result, err := e.Decide()
	e.countRequest(result, err)
	if err != nil {
		return result, on, err
	}
	switch result.Outcome {
	case Passed:
		e.Client.mapPlaceholders(e)
		e.nameExceeded()
		on.pending, on.timing, on.places = e.Pending(nil), e.timing, e.takePlaces()
	case Counted:
		result.Response = result.Response.join(e)
		result.Response.renews = e.Client.isRenewable()
		on = passage{result.Response, e.Pending(result.Response), e.timing, h.emptyPlaceholders(e), e.takePlaces()}
		e.nameExceeded()
		h.App.DecisionLog.passed(e, result.Response)
		h.trace(e.Http, result.Response)
	case Denied:
		e.Pending(nil).Deny(result.Denial.Status)
	case Refused:
		result.Response = result.Response.join(e)
		h.report(e, result.Response)
		if h.offerChallenge(e, result.Response.Refusal) {
			result.Outcome = challenged
		}
	}
	return result, on, nil
}

// Decide collects the request's debits from all limits and makes the engine decide. If the request
// may pass, shadow limits decide about it too.
func (e *Evaluation) Decide() (result, error) {
	result, err := e.decideEnforced()
	if len(e.Shadows.Debits) > 0 || len(e.tried) > 0 {
		e.decideShadows(err == nil && (result.Outcome == Passed || result.Outcome == Counted))
	}
	return result, err
}

// decideEnforced collects the request's debits from all limits and makes the engine decide by the
// enforced ones. Package operations forecasts the same steps for `explain` (forecast.go).
func (e *Evaluation) decideEnforced() (result, error) {
	h := e.Handler
	settled, err := e.Collect()
	e.unpeekBody() // it may wait now
	if err != nil || settled.Outcome != Passed {
		return settled, err
	}
	if e.Allowed {
		return e.passAllowed(), nil
	}
	if e.TrapBan > 0 {
		return e.refuseTrapped(), nil
	}
	if e.RefusedBy != nil {
		return e.refuseAll(e.RefusedBy), nil
	}
	if len(e.Debits) == 0 && len(e.places) == 0 {
		if e.Denied == nil && len(e.Shadows.Debits) == 0 && len(e.tried) == 0 {
			h.None.Requests.Inc()
		}
		if e.Subject == nil {
			return e.passUnlessDenied(), nil
		}
	}
	if err := e.readBody(); err != nil {
		return result{}, err
	}
	if settled, err := e.enter(); err != nil || settled.Outcome != Passed {
		return settled, err
	}
	d, ok := engine.Decision{Allowed: true}, true
	if len(e.Debits) > 0 || e.Subject != nil {
		d, ok = e.decideInTurn()
	}
	if !ok { // its configuration never ran; the next one limits the client
		return e.passUnlessDenied(), nil
	}
	e.count(&d)
	h.countByKind(e, &d)
	switch {
	case d.Reason == engine.Abandoned:
		return e.breakOff()
	case d.Allowed && (e.Denied != nil || len(e.Debits) == 0 && len(e.places) == 0):
		return e.passUnlessDenied(), nil
	}
	return e.answer(&d), nil
}

// passUnlessDenied passes a request that no limit refuses, unless a zone denies it.
func (e *Evaluation) passUnlessDenied() result {
	if e.Denied != nil {
		return result{Outcome: Denied, Denial: e.Denied}
	}
	return result{Outcome: Passed}
}

// Collect collects the debits of all zones that the request belongs to. If one zone denies it for
// its API key, the others still count it, so that they can limit floods of bad keys. The result is
// final unless it is Passed.
func (e *Evaluation) Collect() (result, error) {
	h := e.Handler
	if err := e.peekBody(h.MatchesBody); err != nil {
		return result{}, err
	}
	if exempt, err := e.IsExempt(); err != nil {
		return result{}, err
	} else if exempt {
		return result{Outcome: Passed}, nil
	}
	early := isEarly(e.Http)
	if early && h.Clients {
		return result{Outcome: tooEarly}, nil
	}
	if settled, err := e.obey(early); err != nil || settled.Outcome != Passed {
		return settled, err
	}
	if err := e.checkConduct(); err != nil {
		return result{}, err
	}
	for _, z := range h.Zones {
		switch matches, err := e.Matches(z); {
		case err != nil:
			return result{}, err
		case !matches, early && z.EnforcesNothing:
			continue
		case early:
			return result{Outcome: tooEarly}, nil
		}
		switch denied, err := e.charge(z); {
		case err != nil:
			e.decline(z)
			return result{}, err
		case denied != nil && z.RefusesNothing:
			e.shadowDeny(z)
		case denied != nil:
			e.deny(z, denied)
		}
		if e.RefusedBy != nil { // decideEnforced refuses it; a denial comes first
			return e.passUnlessDenied(), nil
		}
	}
	return result{Outcome: Passed}, nil
}

// IsExempt reports whether the request is exempt from all zones.
func (e *Evaluation) IsExempt() (bool, error) {
	if len(e.Handler.Exempt) == 0 {
		return false, nil
	}
	return anyMatch(e.Handler.Exempt, e.Http, false)
}

// obey applies the operator's rule about the request: it refuses a banned one, and notes an allowed
// one. The result is final unless it is Passed.
func (e *Evaluation) obey(early bool) (result, error) {
	switch s, err := e.Rule(); {
	case err != nil:
		return result{}, err
	case s == nil:
	case early: // its address may be forged
		return result{Outcome: tooEarly}, nil
	case s.Action == rules.Ban:
		return e.refuseBanned(s), nil
	default:
		e.Allowed = true
	}
	return result{Outcome: Passed}, nil
}

// Matches reports whether the request belongs to a zone.
func (e *Evaluation) Matches(z *Zone) (bool, error) {
	matches, err := anyMatch(z.Matchers, e.Http, true)
	if matches && (z.Load != nil || z.When != nil) {
		matches = e.isUnderLoad(z)
	}
	return matches, err
}

// charge collects the debits of a zone: the key, the limits and the cost. It sets Denies if the
// zone refuses the request regardless of counts. It returns the reason if the zone denies the
// request, or nil.
func (e *Evaluation) charge(z *Zone) (*Denial, error) {
	if err := e.peekBody(z.CountsBody); err != nil {
		return nil, err
	}
	set, denied := e.limits(z)
	if denied != nil || set == nil {
		return denied, nil
	}
	if e.Allowed {
		_, denied := e.AppendKey(z) // detects a missing API key
		return denied, nil
	}
	if z.DeniesAll {
		e.denyFor(z, set)
		return nil, nil
	}
	from := len(e.Keys)
	switch v, denied := e.AppendKey(z); {
	case denied != nil || v == keySkipped:
		return denied, nil
	case v == keyDenied:
		e.denyFor(z, set)
		return nil, nil
	}
	e.Shorten(from)
	key := e.Keys[from:] // it doesn't change when further keys need more room
	if z.Per == PerClient {
		key = e.Identify().Key
	}
	cost, err := z.CostOf(e.Http, e.Repl, set)
	if err != nil {
		return nil, err
	}
	for _, p := range set.Policies {
		e.scale(e.add(p, key, cost), p, e.Subject)
	}
	if z.Per == PerClient {
		e.chargeShared(&e.Charges, set.Elsewhere.Policies, set.Networks.Policies, nil, cost)
	}
	if len(set.Shadows) > 0 {
		e.chargeShadows(z, set, key, cost)
	}
	e.wantPlaces(z, key)
	return nil, nil
}

// denyFor refuses the request for a zone, regardless of counts.
func (e *Evaluation) denyFor(z *Zone, set *LimitSet) {
	switch {
	case z.RefusesNothing:
		e.shadowDeny(z)
	case len(set.Policies) > 0:
		e.RefusedBy = set.Policies[0]
	case len(set.Shadows) > 0:
		e.RefusedBy = set.Shadows[0]
	default:
		e.RefusedBy = z.Concurrency.Policy
	}
}

// deny notes that a zone denies the request. The first denial counts.
func (e *Evaluation) deny(z *Zone, why *Denial) {
	e.decline(z)
	if e.Denied == nil {
		e.Denied = why
	}
}

// decline counts a request that a zone rejects without counting it by a key.
func (e *Evaluation) decline(z *Zone) {
	if e.Dry {
		return
	}
	z.Meter.Requests.Inc()
	if e.Denied == nil {
		z.Meter.Declined.Inc()
		z.Past.Refuse(history.Key{}, history.OverLimit)
	}
}

// refuseAll refuses a request for a limit that admits nothing. Nothing is counted.
func (e *Evaluation) refuseAll(by *Policy) result {
	by.Zone.Meter.Requests.Inc()
	by.Zone.Meter.Declined.Inc()
	by.Zone.Past.Refuse(history.Key{}, history.OverLimit)
	by.past.Refuse(history.Key{}, history.OverLimit)
	return result{Outcome: Refused, Response: &Response{
		style: e.Handler.Style, Refusal: &Refusal{App: e.Handler.App, Policy: by, Retry: limiter.Never, Reason: engine.TooCostly},
	}}
}

// refuseBanned refuses a request that the operator has banned. Nothing is counted.
func (e *Evaluation) refuseBanned(by *rules.Rule) result {
	h := e.Handler
	if !e.Dry {
		h.RuleMeter.Banned.Inc()
	}
	return result{Outcome: Refused, Response: &Response{
		style: h.Style, client: e.Client,
		Refusal: &Refusal{App: h.App, Policy: h.BannedByOperator, Retry: h.Spread(e.BannedFor(by), &h.BannedByOperator.Limit.Limit), Reason: engine.Banned},
	}}
}

// passAllowed passes a request that the operator has allowed, unless it lacks the API key that a
// zone requires.
func (e *Evaluation) passAllowed() result {
	if e.Denied != nil {
		return e.passUnlessDenied()
	}
	e.Handler.RuleMeter.Allowed.Inc()
	if e.Client.isRenewable() { // otherwise its session, and the rule about it, would end
		return result{Outcome: Counted, Response: e.newResponse()}
	}
	return e.passUnlessDenied()
}

// refuseTrapped refuses a visit to a trap that bans, like any request of the banned client. It
// refuses a client that may not be banned as well.
func (e *Evaluation) refuseTrapped() result {
	h := e.Handler
	d, ok := h.App.decide(e.Http.Context(), e.Subject, nil)
	if !ok || d.Reason != engine.Banned {
		d = engine.Decision{Reason: engine.Banned, Retry: e.TrapBan}
	}
	h.countByKind(e, &d)
	return e.answer(&d)
}

// answer returns the result of a decision.
func (e *Evaluation) answer(d *engine.Decision) result {
	if d.Allowed {
		return result{Outcome: Counted, Response: e.newResponse()}
	}
	return result{Outcome: Refused, Response: e.newRefusedResponse(d)}
}

// outcome is the outcome of an evaluation.
type outcome int

const (
	Passed     outcome = iota // no limit applies: it is in no zone, exempt or allowed; of a step: go on
	Counted                   // it is within its limits: header fields tell the units left
	Refused                   // it is over a limit, or its client is banned: 429, or 403 if it costs too much
	challenged                // it is refused with a page that lets a browser earn a session
	Denied                    // its API key or its tier is missing or wrong: 400, 401 or 403
	postponed                 // a browser got no place in time, or Caddy is stopping: 503
	tooEarly                  // its connection is not established yet: 425
)

// result is the outcome of an evaluation with the data for the answer. It has at most four words:
// functions don't return a longer one in registers, but copy it in memory, which takes longer than
// most of them do.
type result struct {
	Outcome  outcome
	Response *Response // if Counted, Refused or challenged
	Denial   *Denial   // if Denied
	Waiting  int64     // requests in the line, if postponed
}
