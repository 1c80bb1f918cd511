package tally

import (
	"errors"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// stripSessionCookie takes the cookie that may be a session out of the request.
func (c *client) stripSessionCookie() {
	fields := c.http.Header["Cookie"]
	kept := identity.StripCookie(fields, c.audience().Cookie)
	switch {
	case len(fields) == 0 || len(kept) > 0 && &kept[0] == &fields[0]: // there is none
		return
	case len(kept) == 0:
		delete(c.http.Header, "Cookie")
	default:
		c.http.Header["Cookie"] = kept
	}
	c.cookies = fields
}

// audience returns the site and the cookie that a session of the client is valid for.
func (c *client) audience() session.Audience {
	return session.Audience{Site: session.Site(c.http.Host), Cookie: session.CookieName(c.http.TLS != nil)}
}

// shownSession returns the valid session in the client's cookies, and whether they have one
// that was tampered with.
func (c *client) shownSession(network []byte) (shown session.Session, ok, forged bool) {
	if c.cookies == nil {
		return shown, false, false
	}
	keys := c.app.Session.ready(c.http.Context(), c.app)
	if keys == nil {
		return shown, false, false
	}
	now, audience := time.Now(), c.audience()
	ok = identity.FindCookie(c.cookies, audience.Cookie, func(value string) bool {
		found, err := keys.signer.Verify(now, audience, network, value)
		if err != nil {
			forged = forged || errors.Is(err, session.ErrForged) && c.http.TLS != nil
			return false
		}
		shown = found
		return true
	})
	return shown, ok, forged
}

// issue issues a session for the client, and returns it and a Set-Cookie field.
func (c *client) issue(keys *sessionKeys) (session.Session, string, error) {
	now, audience := time.Now(), c.audience()
	issued, value, err := keys.signer.Issue(now, audience, c.NetworkID())
	if err != nil {
		return issued, "", err
	}
	return issued, session.SetCookie(audience.Cookie, value, now, issued), nil
}

// isRenewable reports whether the client has a session that should be renewed.
func (c *client) isRenewable() bool { return c != nil && c.Session.Renewable }

// renewal renews the client's session and returns a Set-Cookie field, or "" if its network
// has as many sessions as it may have, or the session was renewed recently.
func (c *client) renewal() string {
	limits := c.app.Session.limits
	d, ok := c.app.decide(c.http.Context(), nil, []engine.Debit{
		{Limit: limits.renewals, Key: append([]byte{identity.TagSession}, c.Session.ID[:]...), Cost: 1},
		{Limit: limits.live, Key: c.networkSubject.Key, Cost: 1},
	})
	if !ok || !d.Allowed {
		return ""
	}
	keys := c.app.Session.keys.Load()
	now, audience := time.Now(), c.audience()
	renewed, value := keys.signer.Renew(now, audience, c.NetworkID(), c.Session.ID)
	return session.SetCookie(audience.Cookie, value, now, renewed)
}
