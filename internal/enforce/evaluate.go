package enforce

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/answer"
)

// ServeHTTP passes a request that is within all limits, and refuses others.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	var on passage
	result, err := h.evaluate(r, &on)
	if err != nil {
		return h.Answer.Fail(w, r, err)
	}
	switch result.Outcome {
	case Passed, Counted:
		if on.places != nil {
			defer leave(on.places)
		}
		return on.Serve(w, r, h.watchPlaceholders(on.empty, next))
	case Refused:
		return h.Answer.Refuse(w, r, result.Response)
	case Challenged:
		return result.Response.Refusal.Challenge.Show(w, result.Response)
	case Postponed:
		return h.Answer.Postpone(w, r, result.Waiting)
	case TooEarly:
		return h.Answer.AskAgain(w, r)
	case AtSessions:
		return h.serveSession(w, r)
	default: // denied
		if result.Denial == noKey { // RFC 9110, section 11.6.1
			w.Header().Set("WWW-Authenticate", h.Config.APIKeys.challenge())
		}
		return h.Answer.Deny(w, r, result.Denial)
	}
}

// passage holds the state that a passing request carries to later handlers.
type passage struct {
	answer.Passage
	empty  []*LateName // placeholders to check again when the request returns
	places []place     // places to leave when the request returns
}

// EnforcerOf returns the part of a handler that decides about requests, or nil if the handler isn't
// ours.
func EnforcerOf(handler caddyhttp.MiddlewareHandler) *Handler {
	if h, ok := handler.(interface{ Enforcer() *Handler }); ok {
		return h.Enforcer()
	}
	return nil
}

// evaluate decides about a request, reports the verdict, and prepares the passage of a passing one. The
// error says why no decision was possible.
func (h *Handler) evaluate(r *http.Request, on *passage) (Result, error) {
	e := h.Begin(r)
	defer e.Release()
	v, err := e.Decide()
	if v.Outcome == AtSessions {
		return v.Result, nil
	}
	h.Config.Reporter.Report(v, err)
	if err != nil {
		return v.Result, err
	}
	switch v.Outcome {
	case Counted:
		v.Response.Renews = v.Client.isRenewable()
		on.Response, on.empty = v.Response, h.emptyPlaceholders(v)
		fallthrough
	case Passed:
		on.Pending, on.Timing, on.places = v.Pending(on.Response), v.timing, v.takePlaces()
	case Denied:
		v.Pending(nil).Deny(v.Denial.Status)
	}
	return v.Result, nil
}

// matches reports whether the request belongs to a zone.
func (z *Zone) matches(e *Evaluation) (bool, error) {
	matches, err := e.anyMatch(z.Matchers, &z.MatchReads, true)
	if matches && (z.Load != nil || z.When != nil) {
		matches = z.isUnderLoad(e)
	}
	return matches, err
}

// charge collects the debits of a zone: the key, the limits and the cost. It sets Denies if the
// zone refuses the request regardless of counts. It returns the reason if the zone denies the
// request, or nil.
func (z *Zone) charge(e *Evaluation) (*answer.Denial, error) {
	if err := e.body.peek(&e.Verdict, z.CountsBody); err != nil {
		return nil, err
	}
	if !e.Allowed {
		if denied := z.checkFields(e); denied != nil {
			return denied, nil
		}
	}
	set, denied := z.limits(e)
	if denied != nil || set == nil {
		return denied, nil
	}
	if e.Allowed {
		_, denied := z.appendKey(e) // detects a missing API key
		return denied, nil
	}
	if z.DeniesAll {
		z.denyFor(e, set)
		return nil, nil
	}
	cost, err := z.costOf(e, set)
	if err != nil {
		return nil, err
	}
	nth, nthShadow := len(e.Debits), len(e.Shadows.Debits)
	keys := e.keys[:0] // one, unless programs may read the body differently
	for e.body.reading = range z.readings(e) {
		from := len(e.Keys)
		switch v, denied := z.appendKey(e); {
		case denied != nil:
			return denied, nil
		case v == keyDenied:
			z.denyFor(e, set)
			return nil, nil
		case v == keySkipped:
			continue
		}
		e.shorten(from)
		key := e.Keys[from:] // it doesn't change when further keys need more room
		if z.Per == PerClient {
			key = e.identify().Key
		}
		if !slices.ContainsFunc(keys, func(other []byte) bool { return bytes.Equal(other, key) }) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, bytes.Compare) // or two requests could each wait for the place that the other has
	e.keys = keys
	for _, key := range keys {
		z.chargeKey(e, set, key, cost)
	}
	if err := e.raise(&e.Charges, nth); err != nil {
		return nil, err
	}
	return nil, e.raise(&e.Shadows, nthShadow)
}

// chargeKey collects the debits of a zone from a key.
func (z *Zone) chargeKey(e *Evaluation, set *LimitSet, key []byte, cost int64) {
	for _, p := range set.Policies {
		e.Client.scale(e.add(p, key, cost), p, e.Subject)
	}
	if z.Per == PerClient {
		e.Client.chargeShared(&e.Charges, set.Elsewhere.Policies, set.Networks.Policies, nil, cost)
	}
	if len(set.Shadows) > 0 {
		z.chargeShadows(e, set, key, cost)
	}
	z.wantPlaces(e, key)
}

// denyFor refuses the request for a zone, regardless of counts.
func (z *Zone) denyFor(e *Evaluation, set *LimitSet) {
	switch {
	case z.RefusesNothing:
		z.shadowDeny(e)
	case len(set.Policies) > 0:
		e.RefusedBy = set.Policies[0]
	case len(set.Shadows) > 0:
		e.RefusedBy = set.Shadows[0]
	default:
		e.RefusedBy = z.Concurrency.Policy
	}
}

// deny notes that a zone denies the request. The first denial counts.
func (z *Zone) deny(e *Evaluation, why *answer.Denial) {
	e.decline(z)
	if e.Denial == nil {
		e.Denial = why
	}
}

// decline notes that a zone rejects the request without counting it by a key.
func (v *Verdict) decline(z *Zone) { v.Declining = append(v.Declining, z) }
