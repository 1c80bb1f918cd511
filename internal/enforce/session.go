package enforce

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/meter"
)

// stripSessionCookie removes a cookie that may be a session from the request.
func (c *Client) stripSessionCookie() {
	fields := c.Http.Header["Cookie"]
	kept := identity.StripCookie(fields, c.audience().Cookie)
	switch {
	case len(fields) == 0 || len(kept) > 0 && &kept[0] == &fields[0]: // there is none
		return
	case len(kept) == 0:
		delete(c.Http.Header, "Cookie")
	default:
		c.Http.Header["Cookie"] = kept
	}
	c.cookies = fields
}

// audience returns the site and the cookie of the client's sessions.
func (c *Client) audience() session.Audience {
	return session.Audience{Site: session.Site(c.Http.Host), Cookie: session.CookieName(matcher.IsHTTPS(c.Http))}
}

// shownSession returns the valid session in the client's cookies. forged reports whether they
// contain one that was tampered with.
func (c *Client) shownSession(network []byte) (shown session.Session, ok, forged bool) {
	if c.cookies == nil {
		return shown, false, false
	}
	keys := c.Config.Session.Ready(c.Http.Context(), c.Config)
	if keys == nil {
		return shown, false, false
	}
	now, audience := time.Now(), c.audience()
	ok = identity.FindCookie(c.cookies, audience.Cookie, func(value string) bool {
		found, err := keys.signer.Verify(now, audience, network, value)
		if err != nil {
			forged = forged || errors.Is(err, session.ErrForged) && audience.Cookie == session.SecureCookie
			return false
		}
		shown = found
		return true
	})
	return shown, ok, forged
}

// issue issues a session for the client, and returns it and a Set-Cookie field.
func (c *Client) issue(keys *sessionKeys) (session.Session, string) {
	now, audience := time.Now(), c.audience()
	issued, value := keys.signer.Issue(now, audience, c.NetworkID())
	return issued, session.SetCookie(audience.Cookie, value, now, issued)
}

// isRenewable reports whether the client has a session that should be renewed.
func (c *Client) isRenewable() bool { return c != nil && c.Session.Renewable }

// Renewal renews the client's session and returns a Set-Cookie field. It returns "" if its network
// has reached its number of sessions, or the session was renewed recently.
func (c *Client) Renewal() string {
	limits := c.Config.Session.Limits
	d, ok := c.Config.Decide(c.Http.Context(), nil, []engine.Debit{
		{Limit: limits.renewals, Key: append([]byte{identity.TagSession}, c.Session.ID[:]...), Cost: 1},
		{Limit: limits.live, Key: c.networkSubject.Key, Cost: 1},
	})
	if !ok || !d.Allowed {
		return ""
	}
	keys := c.Config.Session.keys.Load()
	now, audience := time.Now(), c.audience()
	renewed, value := keys.signer.Renew(now, audience, c.NetworkID(), c.Session.ID)
	meter.SessionRenewed()
	return session.SetCookie(audience.Cookie, value, now, renewed)
}

// Ready returns the keys of sessions and challenges, or nil while there is no secret.
func (s *Sessions) Ready(ctx context.Context, cfg *Config) *sessionKeys {
	if keys := s.keys.Load(); keys != nil {
		return keys
	}
	inst := cfg.Use()
	if inst == nil {
		return nil
	}
	secret := inst.Names.AwaitSecret(ctx)
	if secret == nil {
		return nil
	}
	keys := &sessionKeys{session.New(secret, s.Lifetime), challenge.New(secret, s.Difficulty)}
	s.keys.Store(keys)
	return keys
}
