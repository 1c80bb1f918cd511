package tally

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// ServeHTTP lets a request pass that is within all limits, and refuses others.
func (h *enforcer) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	h.app.applyServiceHeader(r)
	if h.app.Session.serves(r.URL.Path) {
		return h.serveSession(w, r)
	}
	result, pending, empty := h.evaluate(r)
	switch result.outcome {
	case passed:
		return pending.serve(w, r, next)
	case counted:
		result.response.setFields(w.Header())
		next = h.watchPlaceholders(empty, next)
		return pending.serve(result.response.writer(w), r, next)
	case refused:
		return h.refuse(w, r, result.response)
	case challenged:
		return result.response.refusal.exchange.challenge(w, result.response)
	case tooEarly:
		return askAgain(w)
	default: // denied, abandoned or failed
		return h.deny(w, r, result.err)
	}
}

// enforcerOf returns what decides about the requests of a handler, or nil if nothing of ours does.
func enforcerOf(handler caddyhttp.MiddlewareHandler) *enforcer {
	if h, ok := handler.(interface{ Enforcer() *enforcer }); ok {
		return h.Enforcer()
	}
	return nil
}

// evaluate decides what becomes of a request. Of one that is counted it also returns what is
// known only with the status of the answer, and the placeholders to look at again when it comes back.
func (h *enforcer) evaluate(r *http.Request) (result, *pending, []*lateName) {
	e := h.begin(r)
	defer e.release()
	result := e.decide()
	var pending *pending
	var empty []*lateName
	switch result.outcome {
	case passed:
		e.client.mapPlaceholders(e)
		pending = e.pending(nil)
	case counted:
		result.response = result.response.join(e)
		result.response.renews = e.client.isRenewable()
		pending = e.pending(result.response)
		empty = h.emptyPlaceholders(e)
		h.app.DecisionLog.passed(e, result.response)
		h.trace(e.http, result.response)
	case denied:
		e.pending(nil).settle(statusOf(result.err))
	case refused:
		result.response = result.response.join(e)
		h.report(e, result.response)
		if h.offerChallenge(e, result.response.refusal) {
			result.outcome = challenged
		}
	}
	return result, pending, empty
}

// decide collects what the request takes from all limits, and has the engine decide. If the
// request may pass, shadow limits decide about it as well.
func (e *evaluation) decide() result {
	result := e.decideEnforced()
	if len(e.shadows.debits) > 0 {
		e.decideShadows(result.outcome)
	}
	return result
}

// decideEnforced collects what the request takes from all limits, and has the engine decide by
// those that are enforced.
func (e *evaluation) decideEnforced() result {
	h := e.handler
	if settled := e.collect(); settled.outcome != passed {
		return settled
	}
	if e.allowed {
		return e.passAllowed()
	}
	if e.trapBan > 0 {
		return e.refuseTrapped()
	}
	if e.denies != nil {
		return e.refuseAll(e.denies)
	}
	if len(e.debits) == 0 {
		if e.denied == nil && len(e.shadows.debits) == 0 {
			h.none.Requests.Inc()
		}
		if e.subject == nil {
			return e.pass()
		}
	}
	if err := e.readBody(); err != nil {
		return result{outcome: failed, err: err}
	}
	d, ok := h.app.decide(e.http.Context(), e.subject, e.debits)
	if !ok { // its configuration never ran; the next one limits the client
		return e.pass()
	}
	e.count(&d)
	h.countByKind(e, &d)
	switch {
	case d.Reason == engine.Abandoned:
		return result{outcome: abandoned, err: errAbandoned}
	case d.Allowed && (e.denied != nil || len(e.debits) == 0):
		return e.pass()
	}
	return e.answer(&d)
}

// pass lets the request pass that no limit refuses, unless a zone denies it.
func (e *evaluation) pass() result {
	if e.denied != nil {
		return result{outcome: denied, err: e.denied}
	}
	return result{outcome: passed}
}

// collect collects the debits of all zones that the request belongs to. A zone that
// denies it for its API key does not keep the others from counting, so that they can limit
// floods of bad keys. The result is final unless it is passed.
func (e *evaluation) collect() result {
	h := e.handler
	if exempt, err := e.isExempt(); err != nil {
		return result{outcome: failed, err: err}
	} else if exempt {
		return result{outcome: passed}
	}
	early := isEarly(e.http)
	if early && h.clients {
		return result{outcome: tooEarly}
	}
	if settled := e.obey(early); settled.outcome != passed {
		return settled
	}
	if err := e.checkConduct(); err != nil {
		return result{outcome: failed, err: err}
	}
	for _, z := range h.zones {
		switch matches, err := e.matches(z); {
		case err != nil:
			return result{outcome: failed, err: err}
		case !matches, early && z.isShadow:
			continue
		case early:
			return result{outcome: tooEarly}
		}
		err := e.charge(z)
		if z.Shadow && err != nil && isDenial(err) {
			e.shadowDeny(z)
			continue
		}
		if err != nil {
			e.deny(z, err)
		}
		switch {
		case err != nil && !isDenial(err):
			return result{outcome: failed, err: err}
		case e.denies != nil:
			return e.pass()
		}
	}
	return result{outcome: passed}
}

// isExempt reports whether no zone is to look at the request.
func (e *evaluation) isExempt() (bool, error) {
	if len(e.handler.exempt) == 0 {
		return false, nil
	}
	return e.handler.exempt.AnyMatchWithError(e.http)
}

// obey does what the operator has stated about the request: it refuses a banned one, and notes
// that one is allowed. The result is final unless it is passed.
func (e *evaluation) obey(early bool) result {
	switch s, err := e.statement(); {
	case err != nil:
		return result{outcome: failed, err: err}
	case s == nil:
	case early: // its address may be forged
		return result{outcome: tooEarly}
	case s.Action == rules.Ban:
		return e.refuseBanned(s)
	default:
		e.allowed = true
	}
	return result{outcome: passed}
}

// matches reports whether the request belongs to a zone.
func (e *evaluation) matches(z *zone) (bool, error) {
	return z.matchers.AnyMatchWithError(e.http)
}

// charge collects the debits of a zone: who, which limits, what cost. It sets denies
// if the zone refuses the request whatever was counted.
func (e *evaluation) charge(z *zone) error {
	set, err := e.limits(z)
	if err != nil || set == nil {
		return err
	}
	if e.allowed {
		_, err := e.appendKey(z) // which finds that an API key is missing
		return err
	}
	if z.deniesAll {
		e.denyFor(z, set)
		return nil
	}
	from := len(e.keys)
	switch v, err := e.appendKey(z); {
	case err != nil || v == keySkipped:
		return err
	case v == keyDenied:
		e.denyFor(z, set)
		return nil
	}
	e.shorten(from)
	key := e.keys[from:] // which stays as it is when further keys need more room
	if z.per == perClient {
		key = e.identify().Key
	}
	cost, err := z.costOf(e.http, e.repl)
	if err != nil {
		return err
	}
	for _, p := range set.policies {
		e.scale(e.debit(p, key, cost), p, e.subject)
	}
	if z.per == perClient {
		e.chargeShared(set, cost)
	}
	if len(set.shadows) > 0 {
		e.chargeShadows(z, set, key, cost)
	}
	return nil
}

// denyFor refuses the request for a zone, whatever was counted.
func (e *evaluation) denyFor(z *zone, set *limitSet) {
	switch {
	case z.Shadow:
		e.shadowDeny(z)
	case len(set.policies) > 0:
		e.denies = set.policies[0]
	default:
		e.denies = set.shadows[0]
	}
}

// deny notes that a zone denies the request. The first one counts.
func (e *evaluation) deny(z *zone, err error) {
	first := e.denied == nil
	if first {
		e.denied = err
	}
	if e.dry {
		return
	}
	z.meter.Requests.Inc()
	if first {
		z.meter.Declined.Inc()
	}
}

// refuseAll refuses a request for a limit that admits nothing. Nothing is counted.
func (e *evaluation) refuseAll(by *policy) result {
	by.zone.meter.Requests.Inc()
	by.zone.meter.Declined.Inc()
	by.zone.past.Refuse(history.Key{}, history.OverLimit)
	by.past.Refuse(history.Key{}, history.OverLimit)
	return result{outcome: refused, response: &response{
		style: e.handler.style, refusal: &refusal{app: e.handler.app, policy: by, retry: limiter.Never, reason: engine.TooCostly},
	}}
}

// refuseBanned refuses a request that the operator has banned. Nothing is counted.
func (e *evaluation) refuseBanned(by *rules.Statement) result {
	h := e.handler
	if !e.dry {
		h.statements.Banned.Inc()
	}
	return result{outcome: refused, response: &response{
		style: h.style, client: e.client,
		refusal: &refusal{app: h.app, policy: h.bannedByOperator, retry: h.spread(e.bannedFor(by), &h.bannedByOperator.Limit.Limit), reason: engine.Banned},
	}}
}

// passAllowed lets a request pass that the operator has allowed, unless it lacks the API key
// that a zone requires.
func (e *evaluation) passAllowed() result {
	if e.denied != nil {
		return e.pass()
	}
	e.handler.statements.Allowed.Inc()
	if e.client.isRenewable() { // or its session, and what is stated about it, would end
		return result{outcome: counted, response: e.newResponse()}
	}
	return e.pass()
}

// refuseTrapped refuses a visit to a trap that bans: as any request of the client that
// it has banned, and if that may not be banned, all the same.
func (e *evaluation) refuseTrapped() result {
	h := e.handler
	d, ok := h.app.decide(e.http.Context(), e.subject, nil)
	if !ok || d.Reason != engine.Banned {
		d = engine.Decision{Reason: engine.Banned, Retry: e.trapBan}
	}
	h.countByKind(e, &d)
	return e.answer(&d)
}

// answer returns the result of a decision.
func (e *evaluation) answer(d *engine.Decision) result {
	if d.Allowed {
		return result{outcome: counted, response: e.newResponse()}
	}
	return result{outcome: refused, response: e.newRefusedResponse(d)}
}
