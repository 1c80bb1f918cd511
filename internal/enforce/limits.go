package enforce

import (
	"strings"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/answer"
)

// limits returns the limits that apply to the request in a zone, or nil if there are none.
func (z *Zone) limits(e *Evaluation) (*LimitSet, *answer.Denial) {
	limits := z.limitsOf(e)
	if limits.ByTier == nil {
		return limits.Own, nil
	}
	name, denied := z.tier(e)
	if denied != nil {
		return nil, denied
	}
	set, ok := limits.ByTier[name]
	if !ok {
		set, ok = limits.ByTier[z.DefaultTier]
	}
	if !ok && !e.Credentials.preflight {
		return nil, noTier
	}
	return set, nil
}

// tier returns the name of the request's tier in a zone.
func (z *Zone) tier(e *Evaluation) (string, *answer.Denial) {
	if z.Tiers {
		c := e.authenticate(e.Handler.Config)
		return c.Tier, c.Denied
	}
	if tier, ok := e.Handler.Config.serviceTier(e.Vars); ok {
		return tier, nil
	}
	name := e.Repl.ReplaceAll(z.Tier, "")
	e.note(z.Tiered, e.Handler.Config.hasTier(name))
	return name, nil
}

// limitsOf returns all limits that may apply to a request in a zone.
func (z *Zone) limitsOf(e *Evaluation) SiteLimits {
	if z.Sites == nil {
		return z.SiteLimits
	}
	return z.Sites[z.site(e.Http.Host)]
}

// site returns the zone's site for a host, or "" if no site matches.
func (z *Zone) site(host string) string {
	host = HostKey(host)
	if _, ok := z.Sites[host]; ok {
		return host
	}
	labels := strings.Split(host, ".")
	if len(labels) > maxLabels {
		return ""
	}
	for i := range labels { // as in Caddy: each `*` is a label, from the left
		labels[i] = "*"
		wild := strings.Join(labels, ".")
		if _, ok := z.Sites[wild]; ok {
			return wild
		}
	}
	return ""
}

// maxLabels bounds how many labels of a host are compared with wildcards.
const maxLabels = 16

// chargeShared charges the limits that the client shares with others: those of the limit own, or
// all if own is nil. A session that is used in another network also takes from that network's
// ceiling. Otherwise a hundred sessions would have a hundred quarters of a limit there (decision 21).
func (c *Client) chargeShared(to *Charges, elsewhere, networks []*Policy, own *Policy, cost int64) {
	if c.usesElsewhere() {
		for _, p := range elsewhere {
			if own == nil || p.Of == own {
				to.add(p, c.Key, cost)
			}
		}
	}
	if !c.usesNetwork() {
		return
	}
	for _, p := range networks {
		if own != nil && p.Of != own {
			continue
		}
		d := to.add(p, c.networkSubject.Key, cost)
		if p.Scaling != nil {
			d.Client, d.Scaling = &c.networkSubject, p.Scaling
		}
	}
}

// usesElsewhere reports whether the client takes from the units of sessions outside their networks.
func (c *Client) usesElsewhere() bool { return c.Session.Elsewhere || c.CrossSite }

// usesNetwork reports whether the client takes from the units that its network shares.
func (c *Client) usesNetwork() bool {
	return c.Session.Elsewhere || c.Kind == identity.Fingerprint || c.Kind == identity.ByPrefix
}
