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
	"github.com/caddy-tally/caddy-tally/limiter"
)

// errAbandoned is what becomes of a request whose client has gone.
var errAbandoned error = caddyhttp.HandlerError{StatusCode: 499}

// Refuse answers a request that is over a limit.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, p *Response) error {
	p.setRefusal(w.Header())
	leaveBody(w, r)
	if httpfield.PrefersProblem(r.Header) {
		problem := httpfield.QuotaExceeded(p.Refusal.Policy.Name)
		problem.Status = p.Refusal.Status()
		if id := p.Refusal.id(); id != "" {
			problem.Instance = reference.URN + id
		}
		return problem.Write(w, r)
	}
	if !h.Routed && h.Page.suits(r) && !AnswersErrors(r, p.Refusal.err()) {
		return h.Page.Refuse(w, r, p.Refusal.shown())
	}
	if h.Routed || hasErrorRoutes(r) {
		return p.Refusal.err()
	}
	w.WriteHeader(p.Refusal.Status()) // what comes of an error that nobody handles, for less
	return nil
}

// setRefusal sets the header fields of a refusal.
func (p *Response) setRefusal(h http.Header) {
	p.setFields(h)
	httpfield.ForbidStoring(h)
	if p.Refusal.Retry != limiter.Never {
		h[httpfield.RetryAfter] = p.Refusal.field[:]
	}
}

// deny answers a request that is turned away without counting, or hands it to the
// error routes.
func (h *Handler) deny(w http.ResponseWriter, r *http.Request, why *Denial) error {
	if why == noKey { // RFC 9110, section 11.6.1
		w.Header().Set("WWW-Authenticate", h.App.APIKeys.challenge())
	}
	if !httpfield.PrefersProblem(r.Header) {
		return fail(w, r, why.Err)
	}
	httpfield.ForbidStoring(w.Header())
	leaveBody(w, r)
	return httpfield.Problem{Title: http.StatusText(why.Status), Status: why.Status, Detail: why.Text}.Write(w, r)
}

// fail hands a request that isn't decided about to the error routes, unless it is in them.
func fail(w http.ResponseWriter, r *http.Request, err error) error {
	httpfield.ForbidStoring(w.Header())
	leaveBody(w, r)
	if status, ok := errors.AsType[caddyhttp.HandlerError](err); ok && inErrorRoute(r) {
		w.WriteHeader(status.StatusCode)
		return nil
	}
	return err
}

// challenge returns how a request is to show its key.
func (k *APIKeys) challenge() string {
	for _, s := range k.From {
		if s.Kind == FromBearer {
			return "Bearer"
		}
	}
	return "ApiKey"
}

// AskAgain has a browser send a request again once the handshake is complete
// (RFC 8470, section 5.2). No error routes see it: what they would say is for people.
func AskAgain(w http.ResponseWriter) error {
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

// Errors that a refused request is handed to the error routes with. They are made once:
// caddyhttp.Error would look at the stack for every one.
var (
	ErrRefused   error = caddyhttp.HandlerError{StatusCode: http.StatusTooManyRequests}
	errTooCostly error = caddyhttp.HandlerError{StatusCode: http.StatusForbidden}
)

// errorRoutes returns the routes for errors that the server of a request has, unless the request
// is in them already. It is false if the server isn't known.
func errorRoutes(r *http.Request) (routes *caddyhttp.HTTPErrorConfig, known bool) {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return nil, false
	}
	if server.Errors == nil || len(server.Errors.Routes) == 0 || inErrorRoute(r) {
		return nil, true
	}
	return server.Errors, true
}

// hasErrorRoutes reports whether a request has routes for errors, as far as is known.
func hasErrorRoutes(r *http.Request) bool {
	routes, known := errorRoutes(r)
	return routes != nil || !known
}

// AnswersErrors reports whether a route for errors might answer err. Those of another site and
// those for other statuses don't. It looks at the request as the server does when it has got an
// error: as the client has sent it.
func AnswersErrors(r *http.Request, err error) bool {
	routes, known := errorRoutes(r)
	if routes == nil {
		return !known
	}
	sent, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	if !ok || sent.URL == nil {
		return true
	}
	before, url := *r, *r.URL
	defer func() {
		r.Method, r.RemoteAddr, r.RequestURI, *r.URL = before.Method, before.RemoteAddr, before.RequestURI, url
	}()
	r.Method, r.RemoteAddr, r.RequestURI, *r.URL = sent.Method, sent.RemoteAddr, sent.RequestURI, *sent.URL
	return mayAnswer(routes.Routes, routes.WithError(r, err))
}

// mayAnswer reports whether a route matches that has more than subroutes in which none does. A
// matcher that fails counts as one that matches, and routes of one group are all looked at:
// guesses are in favour of the routes.
func mayAnswer(routes caddyhttp.RouteList, r *http.Request) bool {
	return slices.ContainsFunc(routes, func(route caddyhttp.Route) bool {
		matches, err := route.MatcherSets.AnyMatchWithError(r)
		if err != nil {
			return true
		}
		return matches && slices.ContainsFunc(route.Handlers, func(h caddyhttp.MiddlewareHandler) bool {
			subroute, ok := h.(*caddyhttp.Subroute)
			return !ok || mayAnswer(subroute.Routes, r)
		})
	})
}

// inErrorRoute reports whether a request is being answered with an error. Of an
// error on top Caddy writes a line to the log, with the client's address, and
// sends the status of the first one.
func inErrorRoute(r *http.Request) bool {
	return r.Context().Value(caddyhttp.ErrorCtxKey) != nil
}

// ErrorRouted reports whether a handler that is being provisioned lies where a
// refusal must be an error: in a subroute that handles errors, or in the intercept
// handler, which fills an answer without a body with what it has intercepted.
func ErrorRouted(ctx caddy.Context) bool {
	return slices.ContainsFunc(ctx.Modules(), func(m caddy.Module) bool {
		switch m := m.(type) {
		case *caddyhttp.Subroute:
			return m.Errors != nil
		case *intercept.Intercept:
			return true
		}
		return false
	})
}

// isNavigation reports whether a browser has called up a page that its user sees now: it prefers
// HTML, and if it says what the request is for, that is a document of its own, no frame, and
// nothing that is loaded ahead.
func isNavigation(r *http.Request) bool {
	is := func(field, value string) bool { // or an older browser, which doesn't say
		said := r.Header[field]
		return len(said) == 0 || said[0] == value
	}
	return httpfield.PrefersHTML(r.Header) && is("Sec-Fetch-Mode", "navigate") && is("Sec-Fetch-Dest", "document") && !isSpeculative(r.Header)
}
