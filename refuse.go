package tally

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity/reference"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// errAbandoned is what becomes of a request whose client has gone.
var errAbandoned error = caddyhttp.HandlerError{StatusCode: 499}

// refuse answers a request that is over a limit.
func (h *enforcer) refuse(w http.ResponseWriter, r *http.Request, p *response) error {
	p.setRefusal(w.Header())
	leaveBody(w, r)
	if httpfield.PrefersProblem(r.Header) {
		problem := httpfield.QuotaExceeded(p.refusal.policy.name)
		problem.Status = p.refusal.status()
		if id := p.refusal.id(); id != "" {
			problem.Instance = reference.URN + id
		}
		return problem.Write(w, r)
	}
	if !h.routed && h.page.suits(r) && !answersErrors(r, p.refusal.err()) {
		return h.page.refuse(w, r, p.refusal.shown())
	}
	if h.routed || hasErrorRoutes(r) {
		return p.refusal.err()
	}
	w.WriteHeader(p.refusal.status()) // what comes of an error that nobody handles, for less
	return nil
}

// setRefusal sets the header fields of a refusal.
func (p *response) setRefusal(h http.Header) {
	p.setFields(h)
	httpfield.ForbidStoring(h)
	if p.refusal.retry != limiter.Never {
		h[httpfield.RetryAfter] = p.refusal.field[:]
	}
}

// deny answers a request that is turned away without counting, or hands it to the
// error routes.
func (h *enforcer) deny(w http.ResponseWriter, r *http.Request, err error) error {
	if err == errNoKey { // RFC 9110, section 11.6.1
		w.Header().Set("WWW-Authenticate", h.app.APIKeys.challenge())
	}
	httpfield.ForbidStoring(w.Header())
	leaveBody(w, r)
	status, ok := errors.AsType[caddyhttp.HandlerError](err)
	switch {
	case ok && isDenial(err) && httpfield.PrefersProblem(r.Header):
		return httpfield.Problem{Title: http.StatusText(status.StatusCode), Status: status.StatusCode, Detail: status.Err.Error()}.Write(w, r)
	case ok && inErrorRoute(r):
		w.WriteHeader(status.StatusCode)
		return nil
	}
	return err
}

// challenge returns how a request is to show its key.
func (k *apiKeys) challenge() string {
	for _, s := range k.From {
		if s.kind == fromBearer {
			return "Bearer"
		}
	}
	return "ApiKey"
}

// askAgain has a browser send a request again once the handshake is complete
// (RFC 8470, section 5.2). No error routes see it: what they would say is for people.
func askAgain(w http.ResponseWriter) error {
	httpfield.NeverStore(w.Header())
	w.WriteHeader(http.StatusTooEarly)
	return nil
}

// keptBody is the length up to which the body of a refused request is taken in,
// so that its connection can go on: what net/http takes at most.
const keptBody = 256 << 10

// leaveBody has a request answered at once whose body may be long. Caddy wraps
// the body, and net/http then waits for the beginning of it before it sends an
// answer, unless the connection ends with that.
func leaveBody(w http.ResponseWriter, r *http.Request) {
	long := r.ContentLength < 0 || r.ContentLength > keptBody
	expected := r.ContentLength > 0 && len(r.Header["Expect"]) > 0
	if r.ProtoMajor == 1 && (long || expected) {
		w.Header().Set("Connection", "close")
	}
}
