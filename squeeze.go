package tally

import (
	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// notePressure counts an unverified client of a network, and squeezes the network if that is
// one client too many. A client whose request needed the store is new to memory; one that was
// answered from memory was counted before, so that warm and blocked requests cost nothing.
// The exception is a request that the network's ceiling blocks: its client may be new.
func (a *shared) notePressure(c *client, d *engine.Decision, byNetwork bool) {
	if c.Kind != identity.Fingerprint || c.Claimed || d.Waited == 0 && !byNetwork || a.squeeze.For == 0 {
		return
	}
	h := a.instance.Load()
	if h == nil || d.Waited == 0 && !h.IsNew(c.networkSubject, c.Key, a.crowded) {
		return
	}
	if !h.Pressure.Seen(h.Lasting(), c.Network, c.browser(), a.crowded) {
		return
	}
	h.Engine.Punish(&c.networkSubject, reputation.Offense{
		Violation: reputation.Violation{Reason: reputation.Crowded},
		Ban:       a.squeeze,
	})
}

// browser returns the client's fingerprint without the language and the initiator. A page on
// another site can choose both for its visitors' browsers, and their networks must not be
// squeezed for that.
func (c *client) browser() []byte {
	hints := hintsOf(c.http).Own()
	hints.AcceptLanguage = ""
	return identity.AppendFingerprint(nil, c.Network, hints)
}
