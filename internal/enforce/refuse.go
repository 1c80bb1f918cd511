package enforce

import (
	"errors"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"

	"github.com/caddy-tally/caddy-tally/identity/reference"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/routing"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// errAbandoned is the result of a request whose client has gone.
var errAbandoned error = caddyhttp.HandlerError{StatusCode: 499}

// refuse answers a request that is over a limit.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, p *Response) error {
	p.setRefusal(w)
	leaveBody(w, r)
	switch {
	case httpfield.PrefersProblem(r.Header):
		problem := httpfield.QuotaExceeded(p.Refusal.Policy.Name)
		problem.Status = p.Refusal.Status()
		if id := p.Refusal.id(); id != "" {
			problem.Instance = reference.URN + id
		}
		return problem.Write(w, r)
	case h.Routed || AnswersErrors(r, p.Refusal.err()):
		return p.Refusal.err()
	case h.Page.suits(r):
		return h.Page.Refuse(w, r, p.Refusal.shown())
	}
	return p.Refusal.short().Write(w, r, &p.Refusal.values)
}

// setRefusal sets the header fields of a refusal.
func (r *Response) setRefusal(w http.ResponseWriter) {
	h := w.Header()
	r.setFields(h)
	r.Refusal.noStore[0] = httpfield.NoStore
	h[httpfield.CacheControl] = r.Refusal.noStore[:]
	ForOneClient(w)
	if r.Refusal.Retry != limiter.Never {
		h[httpfield.RetryAfter] = r.Refusal.field[:]
	}
}

// deny answers a request that is rejected without counting, or hands it to the error routes.
func (h *Handler) deny(w http.ResponseWriter, r *http.Request, why *Denial) error {
	if why == noKey { // RFC 9110, section 11.6.1
		w.Header().Set("WWW-Authenticate", h.App.APIKeys.challenge())
	}
	if handsOver(w, r, why.Err, h.Routed && !httpfield.PrefersProblem(r.Header)) {
		return why.Err
	}
	return why.short.Write(w, r, new([3]string))
}

// fail answers an undecided request, or hands it to the error routes.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) error {
	if err == errNoRoom { // Caddy would write a line about each
		w.Header()[httpfield.RetryAfter] = []string{"1"}
		ForOneClient(w)
		leaveBody(w, r)
		return noRoom.Write(w, r, new([3]string))
	}
	return Reject(w, r, err, h.Routed)
}

// Reject answers a request that failed with an error that tells its status, or hands it to the error
// routes. Errors of the server are Caddy's to log and to answer, except in error routes, and so are
// those of a request that a surrounding handler routes.
func Reject(w http.ResponseWriter, r *http.Request, err error, routed bool) error {
	failed, ok := errors.AsType[caddyhttp.HandlerError](err)
	routed = routed || !ok || err == errAbandoned || failed.StatusCode >= 500 && !routing.InErrorRoute(r)
	if handsOver(w, r, err, routed) {
		return err
	}
	return ofStatus(failed.StatusCode).Write(w, r, new([3]string))
}

// handsOver prepares the answer to a request that may not pass, and reports whether error routes write
// it.
func handsOver(w http.ResponseWriter, r *http.Request, err error, routed bool) bool {
	ForOneClient(w)
	leaveBody(w, r)
	if !routed && (httpfield.PrefersProblem(r.Header) || !AnswersErrors(r, err)) {
		return false
	}
	caddyhttp.SetVar(r.Context(), oursVar, true)
	return true
}

// challenge returns the value of WWW-Authenticate.
func (a *APIKeys) challenge() string {
	if slices.ContainsFunc(a.From, func(s KeySource) bool { return s.Kind == FromBearer }) {
		return "Bearer"
	}
	return "ApiKey"
}

// AskAgain makes a browser repeat a request once the handshake is complete (RFC 8470, section 5.2).
// It bypasses the error routes, whose answers are for people.
func AskAgain(w http.ResponseWriter, r *http.Request) error {
	ForOneClient(w)
	return askAgain.Write(w, r, new([3]string))
}

// overQuota returns the answer to a request that is over some limit: the header names it.
func overQuota(status int) *ShortAnswer {
	p := httpfield.QuotaExceeded("")
	p.Status, p.Violated = status, nil
	return NewShortAnswer(p)
}

// The answers made once.
var (
	askAgain  = ofStatus(http.StatusTooEarly)
	noRoom    = ofStatus(http.StatusServiceUnavailable)
	overLimit = overQuota(http.StatusTooManyRequests)
	tooCostly = overQuota(http.StatusForbidden)
)

// keptBody is the length up to which the body of a refused request is read, so that its connection
// can be reused: the most that net/http reads.
const keptBody = 256 << 10

// leaveBody makes the server answer at once although the request's body may be long. Caddy wraps
// the body, and net/http then waits for its beginning before it sends an answer, unless the answer
// closes the connection.
func leaveBody(w http.ResponseWriter, r *http.Request) {
	long := r.ContentLength < 0 || r.ContentLength > keptBody
	expected := r.ContentLength > 0 && len(r.Header["Expect"]) > 0
	if r.ProtoMajor == 1 && (long || expected) {
		w.Header().Set("Connection", "close")
	}
}

// Errors for the error routes. They are made once, because caddyhttp.Error would inspect the stack
// each time.
var (
	ErrRefused   error = caddyhttp.HandlerError{StatusCode: http.StatusTooManyRequests}
	errTooCostly error = caddyhttp.HandlerError{StatusCode: http.StatusForbidden}
)

// AnswersErrors reports whether an error route might answer err.
func AnswersErrors(r *http.Request, err error) bool {
	return routing.AnswersErrors(r, err, isErrorFields)
}

// ErrorRouted reports whether a handler that is being provisioned lies where a refusal must be an
// error: in a subroute that handles errors, or in the intercept handler, which fills an answer
// without a body with the intercepted one.
func ErrorRouted(ctx caddy.Context) bool {
	return slices.ContainsFunc(ctx.Modules(), func(m caddy.Module) bool {
		switch m := m.(type) {
		case *caddyhttp.Subroute:
			KeepFields(m.Routes, m.Errors)
			return m.Errors != nil
		case *intercept.Intercept:
			return true
		}
		return false
	})
}

// isNavigation reports whether a browser requests a page that its user sees now: it prefers HTML,
// and its Sec-Fetch fields, if any, describe a document of its own, not a frame or a page loaded
// ahead.
func isNavigation(r *http.Request) bool {
	is := func(field, value string) bool { // or an older browser, which doesn't send the field
		said := r.Header[field]
		return len(said) == 0 || said[0] == value
	}
	return httpfield.PrefersHTML(r.Header) && is("Sec-Fetch-Mode", "navigate") && is("Sec-Fetch-Dest", "document") && !isSpeculative(r.Header)
}
