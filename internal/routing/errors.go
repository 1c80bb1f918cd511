package routing

import (
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// AnswersErrors reports whether an error route of the request's server might answer err. Routes of
// another site and for other statuses don't, nor do those with only handlers that pass. It is true
// if the server isn't known.
func AnswersErrors(r *http.Request, err error, passes func(caddyhttp.MiddlewareHandler) bool) bool {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return true
	}
	if server.Errors == nil || len(server.Errors.Routes) == 0 || InErrorRoute(r) {
		return false
	}
	sent, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	if !ok || sent.URL == nil {
		return true
	}
	// Like the server after an error, match the request as the client sent it. It has to be this
	// request and not a copy, because placeholders in matchers read this one.
	before, url := *r, *r.URL
	defer func() {
		r.Method, r.RemoteAddr, r.RequestURI, *r.URL = before.Method, before.RemoteAddr, before.RequestURI, url
	}()
	r.Method, r.RemoteAddr, r.RequestURI, *r.URL = sent.Method, sent.RemoteAddr, sent.RequestURI, *sent.URL
	return mayAnswer(server.Errors.Routes, server.Errors.WithError(r, err), passes)
}

// mayAnswer reports whether a route matches that has more than handlers that pass, and subroutes
// without such a route. A failing matcher counts as a match, and all routes of a group are examined:
// in doubt a route may answer.
func mayAnswer(routes caddyhttp.RouteList, r *http.Request, passes func(caddyhttp.MiddlewareHandler) bool) bool {
	return slices.ContainsFunc(routes, func(route caddyhttp.Route) bool {
		matches, err := route.MatcherSets.AnyMatchWithError(r)
		if err != nil {
			return true
		}
		return matches && slices.ContainsFunc(route.Handlers, func(h caddyhttp.MiddlewareHandler) bool {
			subroute, ok := h.(*caddyhttp.Subroute)
			return !ok && !passes(h) || ok && mayAnswer(subroute.Routes, r, passes)
		})
	})
}

// InErrorRoute reports whether the request is in an error route. For a further error Caddy would
// log a line with the client's address, and send the status of the first one.
func InErrorRoute(r *http.Request) bool {
	return r.Context().Value(caddyhttp.ErrorCtxKey) != nil
}
