package tally

import (
	"net/http"
	"net/netip"

	"github.com/caddy-tally/caddy-tally/identity"
	rules "github.com/caddy-tally/caddy-tally/identity/client"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// client is the identified sender of a request, resolved lazily, and shared by all handlers
// that the request comes through.
type client struct {
	rules.Client
	identified bool // Client says who it is

	app     *App
	http    *http.Request
	cookies []string // the request's Cookie fields, if they hold what may be a session
	mapped  bool     // there are placeholders for it

	subject        *engine.Client // whose record counts; nil if nothing is held against it
	self, parent   engine.Client  // the subject, and what it is a part of
	networkSubject engine.Client  // all clients in its network, once it is located
}

// clientVar is the request variable that holds the client.
const clientVar = "rate_limit.client"

// attachClient readies the request's client, and if they are named, the placeholders that
// tell of it; else those are there once it is known that the request may pass.
func (e *evaluation) attachClient(app *App, named bool) {
	c, ok := e.vars[clientVar].(*client)
	if !ok {
		c = newClient(e, app)
		e.vars[clientVar] = c
	}
	e.client = c
	if named {
		c.mapPlaceholders(e)
	}
}

func newClient(e *evaluation, app *App) *client {
	c := &client{app: app, http: e.http}
	if app.Session != nil {
		c.stripSessionCookie()
	}
	return c
}

// identify returns the request's client, identified.
func (e *evaluation) identify() *client {
	c := e.client
	if c.identified {
		return c
	}
	c.identified = true
	c.Identify(evidence{e})
	c.networkSubject.Key = c.NetworkKey
	if c.Subject != nil {
		c.self.Key, c.subject = c.Subject, &c.self
	}
	if c.Parent != nil {
		c.parent.Key, c.self.Parent = c.Parent, &c.parent
	}
	return c
}

// locate settles which network the client is in.
func (c *client) locate(e *evaluation) {
	c.Locate(evidence{e})
	c.networkSubject.Key = c.NetworkKey
}

// evidence is what the HTTP of a request shows of its sender.
type evidence struct{ *evaluation }

var _ rules.Evidence = evidence{}

// Service implements rules.Evidence.
func (e evidence) Service() (tier string, ok bool) {
	by := e.authenticate(e.client.app)
	return by.tier, by.service
}

// APIKey implements rules.Evidence.
func (e evidence) APIKey() string { return e.authenticate(e.client.app).name }

// Network implements rules.Evidence.
func (e evidence) Network() (network netip.Prefix, claimed bool) {
	a := e.client.app
	if claimed = e.isClaimed(); claimed {
		a.noteClaim()
	}
	network, _ = a.network(e.clientIP())
	return network, claimed
}

// Session implements rules.Evidence.
func (e evidence) Session(network []byte) (s session.Session, ok, forged bool) {
	return e.client.shownSession(network)
}

// Hints implements rules.Evidence.
func (e evidence) Hints() identity.Hints { return hintsOf(e.client.http) }

// network returns the network that tells clients apart, or false for what is no
// address.
func (a *App) network(ip string) (netip.Prefix, bool) {
	ipv4, ipv6 := a.prefixes(0, 0)
	return identity.Prefix(ip, ipv4, ipv6)
}

// hintsOf returns what a request says of the browser that it is from, and of who
// had that send it.
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

// clientIP returns the client's address as Caddy determined it, or "".
func (e *evaluation) clientIP() string {
	ip, _ := e.vars[caddyhttp.ClientIPVarKey].(string)
	return ip
}
