package tally

import (
	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/pressure"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// notePressure notes that an unverified client came, and squeezes its network if it
// is one too many. Who is answered from memory was noted when it came first, so
// warm and blocked requests pay nothing for it: but for those that the network's
// ceiling leaves nothing, who may never have been heard of.
func (a *App) notePressure(c *client, d engine.Decision, byNetwork bool) {
	if c.Kind != identity.Fingerprint || c.Claimed || d.Waited == 0 && !byNetwork || !a.Pressure.isOn() {
		return
	}
	h := a.instance.Load()
	if h == nil || d.Waited == 0 && !h.isNew(c, a.Pressure.rule()) {
		return
	}
	if !h.pressure.Seen(h.lasting(), c.Network, c.browser(), a.Pressure.rule()) {
		return
	}
	h.engine.Punish(&c.networkSubject, reputation.Offense{
		Violation: reputation.Violation{Reason: reputation.Crowded},
		Ban:       a.Pressure.squeeze().rule(""),
	})
}

// isNew reports whether a client that is refused from memory may be one too many in
// its network. It takes no lock.
func (h *instance) isNew(c *client, rule pressure.Rule) bool {
	if record := h.engine.CachedRecord(c.networkSubject); record != nil && record.Banned(h.engine.Now()) {
		return false // it is squeezed already
	}
	return h.pressure.IsNew(h.lasting(), c.Key, rule)
}

// browser returns the client's fingerprint without what a page elsewhere can choose
// for its visitors' browsers, their language and that it has them send requests:
// their networks must not be squeezed for that.
func (c *client) browser() []byte {
	hints := hintsOf(c.http).Own()
	hints.AcceptLanguage = ""
	return identity.AppendFingerprint(nil, c.Network, hints)
}
