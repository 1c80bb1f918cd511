package answer

import (
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// ForOneClient keeps caches from storing the answer that is about to be written to w, whatever
// header fields the site sets on its pages. All answers of ours pass it.
func ForOneClient(w http.ResponseWriter) {
	httpfield.NeverStore(w.Header())
	beneathDeferred(w, nil)
}

// beneathDeferred has the last word about the header of an answer that Caddy's header directive
// changes when it is written: if the directive removes a field, or has defer, > or ?. Its other
// changes stay. The answer is then stored by no cache, or renews the session of a client if there is
// one. It returns the response that has the last word, or nil if there is no such directive before
// our handler.
func beneathDeferred(w http.ResponseWriter, renews Client) *Response {
	var outermost *caddyhttp.ResponseWriterWrapper
	for w != nil {
		if inner := routing.DeferredWriter(w); inner != nil {
			outermost = inner
		}
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = wrapper.Unwrap()
	}
	if outermost == nil {
		return nil
	}
	if below, ok := outermost.ResponseWriter.(*writer); ok && renews == nil && below.Response != nil &&
		below.Response.forOneClient {
		return below.Response // it was put there before
	}
	below := &writer{
		Passage: Passage{Response: &Response{forOneClient: renews == nil, Renews: renews != nil, client: renews}}}
	below.ResponseWriter, outermost.ResponseWriter = outermost.ResponseWriter, below
	return below.Response
}

// errorFields runs before error routes. It sets our header fields when their answer is written, in
// place of those that an upstream adds, and keeps caches from storing our refusals.
type errorFields struct{}

// oursVar is the request variable that tells that an error is ours.
const oursVar = "rate_limit.ours"

// KeepFields puts errorFields before the error routes of some routes, once, and before these are
// provisioned: Caddy does that after the others. A handler among them needs it not.
func KeepFields(routes caddyhttp.RouteList, errors *caddyhttp.HTTPErrorConfig) {
	if errors == nil || len(errors.Routes) == 0 || len(errors.Routes[0].Handlers) > 0 &&
		isErrorFields(errors.Routes[0].Handlers[0]) {
		return
	}
	if !slices.ContainsFunc(routes,
		func(r caddyhttp.Route) bool { return len(r.HandlersRaw) > 0 && len(r.Handlers) == 0 }) {
		return
	}
	errors.Routes = append(caddyhttp.RouteList{{Handlers: []caddyhttp.MiddlewareHandler{errorFields{}}}},
		errors.Routes...)
}

func isErrorFields(h caddyhttp.MiddlewareHandler) bool {
	_, ok := h.(errorFields)
	return ok
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (errorFields) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	p, _ := caddyhttp.GetVar(r.Context(), responseVar).(*Response)
	ours, _ := caddyhttp.GetVar(r.Context(), oursVar).(bool)
	if p == nil && ours {
		p = &Response{forOneClient: true}
	}
	if p == nil {
		return next.ServeHTTP(w, r)
	}
	out := &writer{Passage: Passage{Response: p}}
	out.ResponseWriter = w
	return next.ServeHTTP(out, r)
}
