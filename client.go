package tally

import (
	"net/http"
	"net/netip"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// client is whom a request is from, as far as it can be told from others: the
// same for all handlers that the request comes through. Who it is is looked into
// when somebody asks.
type client struct {
	app     *App
	http    *http.Request
	cookies []string // the request's Cookie fields, if they hold what may be a session

	mapped bool // placeholders tell of it

	// What is known of it, once it was asked for.
	known     bool
	kind      identity.Kind
	self      engine.Client  // with the key that it is counted by
	subject   *engine.Client // the same by what it has done; nil if it is nobody in particular
	part      engine.Client  // of its session, for what other sites have it send
	own       engine.Client  // the same browser when its user visits the site, where self is not that
	service   bool           // it is one of the operator's own
	session   session.Session
	crossSite bool // another site had its browser send the request
	forged    bool // it has a cookie that somebody has tampered with

	// The network that it comes from, once that was asked for.
	located        bool
	network        netip.Prefix  // not valid if the address can't be read
	claimed        bool          // the client may have chosen its address: nothing is held against that
	networkSubject engine.Client // all that come from there, with the network as their key

	room [2*keyRoom + placeRoom]byte // for the keys, so that they take no memory of their own
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

// identify returns the request's client, about which is known what can be.
func (e *evaluation) identify() *client {
	c := e.client
	if !c.known {
		c.known = true
		c.know(e)
	}
	return c
}

// know settles who the client is: by its API key, by its session, by what it says
// of itself within its network, or by that alone.
func (c *client) know(e *evaluation) {
	switch by := e.authenticate(c.app); {
	case by.service:
		c.service = true
		c.be(identity.APIKey, append(append(c.room[:0:keyRoom], kindService), by.tier...))
		return
	case by.name != "":
		c.be(identity.APIKey, append(append(c.room[:0:keyRoom], kindAPIKey), by.name...))
		c.subject = &c.self
		return
	}
	c.locate(e)
	switch hints := hintsOf(c.http); {
	case c.hasSession():
		c.beSession(hints.Initiator)
	case !c.network.IsValid():
		c.be(identity.Unknown, c.networkSubject.Key)
	case hints.SayNothing():
		c.beAsSaid(identity.ByPrefix, hints)
	default:
		c.beAsSaid(identity.Fingerprint, hints)
	}
}

// beSession settles that the client is its session. What other sites have its
// browser send is counted by the session, and held against a part of it only.
func (c *client) beSession(by identity.Initiator) {
	c.be(identity.Session, append(append(c.room[:0:keyRoom], kindSession), c.session.ID[:]...))
	c.subject = &c.self
	if by.IsOther() {
		c.crossSite = true
		c.part = engine.Client{Key: append(append(c.room[keyRoom:keyRoom:2*keyRoom], c.self.Key...), byte(by)), Parent: &c.self}
		c.subject = &c.part
	}
}

// beAsSaid settles that the client is what it says of itself within its network.
// Who says nothing is also one that says so: all of them in a network are one
// client.
func (c *client) beAsSaid(kind identity.Kind, hints identity.Hints) {
	c.be(kind, identity.AppendFingerprint(append(c.room[:0:keyRoom], kindFingerprint), c.network, hints))
	if c.claimed {
		return
	}
	c.subject = &c.self
	if hints.Initiator != identity.OwnSite {
		c.own.Key = identity.AppendFingerprint(append(c.room[keyRoom:keyRoom:2*keyRoom], kindFingerprint), c.network, hints.Own())
		c.self.Parent = &c.own
	}
}

func (c *client) be(kind identity.Kind, key []byte) { c.kind, c.self.Key = kind, key }

// How much of a client's room the keys of its network and its own have: that of a
// fingerprint is the longest but for names of API keys, for which memory is found.
const (
	placeRoom = 1 + 1 + 16
	keyRoom   = placeRoom + identity.FingerprintSize
)

// locate settles which network the client comes from.
func (c *client) locate(e *evaluation) {
	if c.located {
		return
	}
	c.located = true
	if c.claimed = e.isClaimed(); c.claimed {
		c.app.noteClaim()
	}
	var ok bool
	place := c.room[2*keyRoom : 2*keyRoom]
	if c.network, ok = c.app.network(e.clientIP()); ok {
		place = identity.AppendPrefix(append(place, kindIP), c.network)
	} else {
		place = append(place, kindUnknown)
	}
	c.networkSubject.Key = place
}

// network returns the network that tells clients apart, or false for what is no
// address.
func (a *App) network(ip string) (netip.Prefix, bool) {
	ipv4, ipv6 := a.prefixes(0, 0)
	return identity.Prefix(ip, ipv4, ipv6)
}

// isVerified tells whether the client can't choose who it is, and is where it was
// verified.
func (c *client) isVerified() bool { return c.kind.Verified() && !c.session.Elsewhere }

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

// publicName returns the opaque name of a client. That of one that is not verified
// is another every day, and nobody can tell it two days later.
func (h *instance) publicName(key []byte, verified bool) (name [16]byte, ok bool) {
	const scope, text = 0, "client "
	if !verified {
		names, err := h.epochs.At(h.lasting(), 1)
		if err != nil {
			return name, false
		}
		return names.Current.Name(scope, text+string(key)), true
	}
	secret := h.secret.Load()
	if secret == nil {
		return name, false
	}
	return secret.Name(scope, text+string(key)), true
}

// clientIP returns the client's address as Caddy determined it, or "".
func (e *evaluation) clientIP() string {
	ip, _ := e.vars[caddyhttp.ClientIPVarKey].(string)
	return ip
}
