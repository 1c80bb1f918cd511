package enforce

import (
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// KnowsClients reports whether the handler keeps records of its clients. It doesn't for a zone in
// shadow, which bans no client and refuses no banned one.
func (h *Handler) KnowsClients() bool {
	return len(h.Traps) > 0 ||
		slices.ContainsFunc(h.Zones, func(z *Zone) bool { return z.CountsClients() && !z.EnforcesNothing })
}

// KnowsAnonymous reports whether the handler also keeps records of clients without an
// API key.
func (h *Handler) KnowsAnonymous() bool {
	return len(h.Traps) > 0 ||
		slices.ContainsFunc(h.Zones, func(z *Zone) bool { return z.Per == PerClient && !z.EnforcesNothing })
}

// checkConduct identifies the client if its record matters, and punishes it for visiting a trap or
// tampering with a session. It doesn't punish a client that the operator has allowed, and a browser
// that loads a page ahead isn't punished for a trap, because any page that it shows can cause that.
func (e *Evaluation) checkConduct() error {
	h := e.Handler
	if !h.Clients || e.Allowed {
		return nil
	}
	if !h.Anonymous && e.authenticate(h.Config).Name == "" {
		return nil
	}
	if e.Subject = e.identify().subject; e.Subject == nil && !e.Client.Claimed {
		return nil
	}
	if e.Client != nil && e.identify().Forged { // a session that was tampered with, or copied from another site
		h.Config.reportOffense(e, e.Subject, h.Config.Forged)
	}
	for _, t := range h.Traps {
		caught, err := e.anyMatch(t.Matchers, &t.Reads, false)
		if err != nil {
			return err
		}
		if caught {
			o := t.offenseOf(e.Client)
			e.trapped = true
			if !httpfield.IsSpeculative(e.Http.Header) {
				h.Config.reportOffense(e, e.Subject, o)
			}
			if t.Bans {
				e.TrapBan = max(e.TrapBan, o.Ban.For)
			}
		}
	}
	return nil
}

// unverifiedOffenses bounds how many unverified clients of one network are punished for offenses
// other than going over a limit. Each takes a row in the database, and a client can claim any
// identity.
var unverifiedOffenses = ownLimit("trapped", limiter.Params{Amount: 60, Window: time.Hour})

// reportOffense punishes the client of a request, whose record belongs to subject, if mayReport
// allows it. It ignores offenses of a client that is already banned, and a nil subject.
func (cfg *Config) reportOffense(e *Evaluation, subject *engine.Client, o reputation.Offense) {
	if subject == nil || e.forecasts {
		return
	}
	record := e.Client.Record()
	if banned := record != nil && record.Banned(cfg.Use().Engine.Now()); !banned && cfg.mayReport(e) {
		cfg.punish(subject, o)
	}
}

// mayReport reports whether the client of a request may be punished for an offense other than going
// over a limit. A client that already has a row needs no further one.
func (cfg *Config) mayReport(e *Evaluation) bool {
	c := e.Client
	if c.Kind.Verified() {
		return true
	}
	if instance := cfg.Use(); instance != nil {
		if record := instance.Engine.CachedRecord(engine.Client{Key: c.subject.Key}); record != nil &&
			record.Expires() > 0 {
			return true
		}
	}
	c.locateFrom(e)
	d, ok := cfg.Decide(e.Http.Context(), nil,
		[]engine.Debit{{Limit: unverifiedOffenses, Key: c.networkSubject.Key, Cost: 1}})
	return ok && d.Allowed
}

// offenseOf returns the offense of a client that visited the trap. That of a client that isn't verified is milder,
// because others behind its address may look the same (decision 14).
func (t *Trap) offenseOf(c *Client) reputation.Offense {
	if c.Kind.Verified() {
		return t.Offense
	}
	return t.Excused
}

// notePressure counts the client of a decision by the engine for the pressure of its network.
func (e *Evaluation) notePressure() {
	c, d := e.Client, &e.Decision
	if c != nil && c.Identified && !e.forecasts {
		e.Handler.Config.notePressure(c, d, d.Reason == engine.Blocked && e.Policies[d.Debit].Of != nil)
	}
}

// notePressure counts an unverified client of a network, and throttles the network if that is one
// client too many. A client whose request needed the store is new to memory. A client whose request
// was answered from memory was counted before, so warm and blocked requests cost nothing. The
// exception is a request that the network's ceiling blocks: its client may be new.
func (cfg *Config) notePressure(c *Client, d *engine.Decision, byNetwork bool) {
	if c.Kind != identity.Fingerprint || c.Claimed || d.Waited == 0 && !byNetwork || cfg.Squeeze.For == 0 {
		return
	}
	inst := cfg.Instance.Load()
	if inst == nil || d.Waited == 0 && !inst.IsNew(c.networkSubject, c.Key) {
		return
	}
	if !inst.Pressure.Seen(inst.Lasting(), c.Network, c.browser(), cfg.Crowded) {
		return
	}
	inst.Engine.Punish(&c.networkSubject, reputation.Offense{
		Violation: reputation.Violation{Reason: reputation.Crowded},
		Ban:       cfg.Squeeze,
	})
}

// browser returns the client's fingerprint without the language and the initiator. A page on
// another site can choose both for its visitors' browsers, and must not get their networks
// throttled.
func (c *Client) browser() []byte {
	hints := HintsOf(c.Http).Own()
	hints.AcceptLanguage = ""
	return identity.AppendFingerprint(nil, c.Network, hints)
}
