package tally

import (
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// knowsClients reports whether the handler keeps records of its clients. For a zone in shadow it
// does not: that bans nobody, and refuses nobody who is banned.
func (h *enforcer) knowsClients() bool {
	return len(h.traps) > 0 || slices.ContainsFunc(h.zones, func(z *zone) bool { return z.countsClients() && !z.isShadow })
}

// knowsAnonymous reports whether the handler also keeps records of clients without an
// API key.
func (h *enforcer) knowsAnonymous() bool {
	return len(h.traps) > 0 || slices.ContainsFunc(h.zones, func(z *zone) bool { return z.per == perClient && !z.isShadow })
}

// checkConduct identifies the client, if its record matters, and punishes it for visiting
// a trap or tampering with a session. One that the operator has allowed is neither. A browser
// that loads a page ahead isn't punished for a trap, because any page that it shows can cause that.
func (e *evaluation) checkConduct() error {
	h := e.handler
	if !h.clients || e.allowed {
		return nil
	}
	if !h.anonymous && e.authenticate(h.app).name == "" {
		return nil
	}
	if e.subject = e.identify().subject; e.subject == nil && !e.client.Claimed {
		return nil
	}
	if e.isForged() {
		h.app.reportOffense(e, e.subject, h.app.forged)
	}
	for _, t := range h.traps {
		caught, err := t.matchers.AnyMatchWithError(e.http)
		if err != nil {
			return err
		}
		if caught {
			o := t.offenseOf(e.client)
			e.trapped = true
			if !isSpeculative(e.http.Header) {
				h.app.reportOffense(e, e.subject, o)
			}
			if t.bans {
				e.trapBan = max(e.trapBan, o.Ban.For)
			}
		}
	}
	return nil
}

// unverifiedOffenses bounds how many unverified clients of one network are punished for other
// offenses than going over a limit. Each is a row in the database, and a client can claim to
// be anybody.
var unverifiedOffenses = ownLimit("trapped", limiter.Params{Amount: 60, Window: time.Hour})

// reportOffense punishes the client of a request, whose record is that of a subject, if
// mayReport allows it. Offenses of a client that is banned already are ignored. Nothing
// happens if the subject is nil.
func (a *shared) reportOffense(e *evaluation, subject *engine.Client, o reputation.Offense) {
	if subject == nil || e.dry {
		return
	}
	record := e.client.record()
	if banned := record != nil && record.Banned(a.use().Engine.Now()); !banned && a.mayReport(e) {
		a.punish(subject, o)
	}
}

// mayReport reports whether the client of a request may be punished for an
// offense other than going over a limit. A client that has a row already needs no other.
func (a *shared) mayReport(e *evaluation) bool {
	c := e.client
	if c.Kind.Verified() {
		return true
	}
	if instance := a.use(); instance != nil {
		if record := instance.Engine.CachedRecord(engine.Client{Key: c.subject.Key}); record != nil && record.Expires() > 0 {
			return true
		}
	}
	c.locate(e)
	d, ok := a.decide(e.http.Context(), nil, []engine.Debit{{Limit: unverifiedOffenses, Key: c.networkSubject.Key, Cost: 1}})
	return ok && d.Allowed
}

// offenseOf returns the offense of a client that has visited the trap.
func (t *trap) offenseOf(c *client) reputation.Offense {
	if c.Kind.Verified() {
		return t.offense
	}
	return t.excused
}

// isForged reports whether the request has a session cookie that somebody has
// tampered with, or taken from another site.
func (e *evaluation) isForged() bool { return e.client != nil && e.identify().Forged }
