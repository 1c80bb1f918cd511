package tally

import (
	"net/http"

	"github.com/caddy-tally/caddy-tally/identity"
	clients "github.com/caddy-tally/caddy-tally/identity/client"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// client is the identified sender of a request, resolved lazily, and shared by all handlers
// that the request comes through.
type client struct {
	clients.Client
	identified bool // whether Client is filled in

	app     *App
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
		}.Initiator(),
	}
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
