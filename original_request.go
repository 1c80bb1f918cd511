package tally

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// originalOf returns the request with the method and the target that the client has
// sent, or nil if no handler has rewritten them. Directives such as `rewrite`,
// `try_files`, `uri`, `method` and `handle_path` run before this one, and upstreams
// such as PHP take the route from the original target all the same.
func originalOf(r *http.Request) *http.Request {
	sent, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	if !ok || sent.URL == nil || sent.Method == r.Method && sent.URL.Path == r.URL.Path && sent.URL.RawPath == r.URL.RawPath &&
		sent.URL.RawQuery == r.URL.RawQuery && sent.URL.Host == r.URL.Host && sent.URL.Opaque == r.URL.Opaque {
		return nil
	}
	original := *r
	original.Method, original.URL, original.RequestURI = sent.Method, sent.URL, sent.RequestURI
	return &original
}
