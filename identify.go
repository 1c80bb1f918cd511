package tally

import (
	"net/netip"

	"github.com/caddy-tally/caddy-tally/identity"
	clients "github.com/caddy-tally/caddy-tally/identity/client"
	"github.com/caddy-tally/caddy-tally/identity/session"
)

// identify returns the request's client, identified.
func (e *evaluation) identify() *client {
	c := e.client
	if c.identified {
		return c
	}
	c.identified = true
	c.Identify(evidence{e})
	c.networkSubject.Key = c.NetworkKey()
	if c.Subject() != nil {
		c.self.Key, c.subject = c.Subject(), &c.self
	}
	if c.Parent() != nil {
		c.parent.Key, c.self.Parent = c.Parent(), &c.parent
	}
	return c
}

// locate settles which network the client is in.
func (c *client) locate(e *evaluation) {
	c.Locate(evidence{e})
	c.networkSubject.Key = c.NetworkKey()
}

// evidence is what the HTTP of a request shows of its sender.
type evidence struct{ *evaluation }

var _ clients.Evidence = evidence{}

// Service implements clients.Evidence.
func (e evidence) Service() (tier string, ok bool) {
	by := e.authenticate(e.client.app)
	return by.tier, by.service
}

// APIKey implements clients.Evidence.
func (e evidence) APIKey() string { return e.authenticate(e.client.app).name }

// Network implements clients.Evidence.
func (e evidence) Network() (network netip.Prefix, claimed bool) {
	a := e.client.app
	if claimed = e.isClaimed(); claimed && !e.dry {
		a.noteClaim()
	}
	network, _ = a.network(e.clientIP())
	return network, claimed
}

// Session implements clients.Evidence.
func (e evidence) Session(network []byte) (s session.Session, ok, forged bool) {
	return e.client.shownSession(network)
}

// Hints implements clients.Evidence.
func (e evidence) Hints() identity.Hints { return hintsOf(e.client.http) }
