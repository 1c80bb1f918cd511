package tally

import (
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"
)

// Errors that a refused request is handed to the error routes with. They are made once:
// caddyhttp.Error would look at the stack for every one.
var (
	errRefused   error = caddyhttp.HandlerError{StatusCode: http.StatusTooManyRequests}
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

// answersErrors reports whether a route for errors might answer err. Those of another site and
// those for other statuses don't. It looks at the request as the server does when it has got an
// error: as the client has sent it.
func answersErrors(r *http.Request, err error) bool {
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

// errorRouted reports whether a handler that is being provisioned lies where a
// refusal must be an error: in a subroute that handles errors, or in the intercept
// handler, which fills an answer without a body with what it has intercepted.
func errorRouted(ctx caddy.Context) bool {
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
