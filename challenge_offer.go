package tally

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// offerChallenge reports whether a refused request is to be answered with a challenge: if a
// browser has called up a page and a session would help its client. It sets the exchange to
// do so with.
func (h *enforcer) offerChallenge(e *evaluation, r *refusal) bool {
	if r.retry == limiter.Never || e.http.Method != http.MethodGet || !isNavigation(e.http) || !h.sessionHelps(e, r) {
		return false
	}
	x := &exchange{sessions: h.app.Session, app: h.app, http: e.http, client: e.client, page: h.page}
	if d, ok := x.take(x.limits.pages); !ok || !d.Allowed {
		return false
	}
	if x.keys = x.sessions.ready(e.http.Context(), h.app); x.keys == nil {
		return false
	}
	r.exchange = x
	return true
}

// sessionHelps reports whether the client might pass with a session. A ban of an unverified
// client may be meant for somebody else in its network: a session tells the two apart. It
// doesn't help in a trap, because the browser would return to the trap with the session.
func (h *enforcer) sessionHelps(e *evaluation, r *refusal) bool {
	switch {
	case e.trapped:
		return false
	case r.policy == h.banned:
		return h.app.Session != nil && !e.client.Kind.Verified()
	}
	return r.policy.zone.challenges && !e.client.IsVerified()
}

// challenge answers a refused request with a challenge.
func (x *exchange) challenge(w http.ResponseWriter, p *response) error {
	x.w = w
	p.setRefusal(x.w.Header())
	leaveBody(x.w, x.http)
	return x.show(http.StatusTooManyRequests, originalURI(x.http), p.refusal, nil)
}

// originalURI returns what a request was for before other handlers changed it.
func originalURI(r *http.Request) string {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return original.RequestURI
	}
	return r.RequestURI
}
