package tally

import (
	"net/http"
	"strings"

	"github.com/caddy-tally/caddy-tally/identity"
	clients "github.com/caddy-tally/caddy-tally/identity/client"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// client is the identified sender of a request, resolved lazily, and shared by all handlers
// that the request comes through.
type client struct {
	clients.Client
	identified bool // whether Client is filled in

	app     *shared
	http    *http.Request
	cookies []string // the request's Cookie fields as sent, if one may be a session
	mapped  bool     // its placeholders are set

	subject        *engine.Client // whose record counts; nil if nothing is held against it
	self, parent   engine.Client  // the subject, and what it is a part of
	networkSubject engine.Client  // all clients in its network, once it is located
}

// clientVar is the request variable that holds the client.
const clientVar = "rate_limit.client"

// hintsOf returns what a request says about its browser, and about the site that had the
// browser send it.
func hintsOf(r *http.Request) identity.Hints {
	h := r.Header
	return identity.Hints{
		UserAgent:      first(h["User-Agent"]),
		AcceptLanguage: first(h["Accept-Language"]),
		Platform:       first(h["Sec-Ch-Ua-Platform"]),
		Mobile:         first(h["Sec-Ch-Ua-Mobile"]),
		Initiator: identity.Fetch{
			Method:  r.Method,
			Host:    r.Host,
			TLS:     r.TLS != nil,
			Site:    first(h["Sec-Fetch-Site"]),
			Mode:    first(h["Sec-Fetch-Mode"]),
			Dest:    first(h["Sec-Fetch-Dest"]),
			Origin:  first(h["Origin"]),
			Referer: first(h["Referer"]),
			Upgrade: first(h["Upgrade-Insecure-Requests"]),

			Speculative: isSpeculative(h),
		}.Initiator(),
	}
}

// isSpeculative reports whether a browser sends a request before its user asks for the page, by
// a prefetch, a prerender or a preview: Sec-Purpose
// (https://fetch.spec.whatwg.org/#sec-purpose-header), or what older browsers say.
func isSpeculative(h http.Header) bool {
	says := func(field, value string) bool {
		said := first(h[field])
		return len(said) >= len(value) && strings.EqualFold(said[:len(value)], value)
	}
	return len(h["Sec-Purpose"]) > 0 || says("Purpose", "pre") || says("X-Purpose", "pre") || says("X-Moz", "prefetch")
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
