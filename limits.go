package tally

import (
	"net"
	"strings"

	"github.com/caddy-tally/caddy-tally/identity"
)

// limits returns the limits that hold for the request in a zone, or nil if none do.
func (e *evaluation) limits(z *zone) (*limitSet, error) {
	limits := e.limitsOf(z)
	if limits.byTier == nil {
		return limits.own, nil
	}
	name, err := e.tier(z)
	if err != nil {
		return nil, err
	}
	set, ok := limits.byTier[name]
	if !ok {
		set, ok = limits.byTier[z.DefaultTier]
	}
	if !ok && !e.credentials.preflight {
		return nil, errNoTier
	}
	return set, nil
}

// tier returns the name of the tier that the request has in a zone.
func (e *evaluation) tier(z *zone) (string, error) {
	if z.Tiers {
		c := e.authenticate(e.handler.app)
		return c.tier, c.err
	}
	if tier, ok := e.serviceTier(e.handler.app); ok {
		return tier, nil
	}
	return e.repl.ReplaceAll(z.Tier, ""), nil
}

// limitsOf returns all limits that may hold for a request in a zone.
func (e *evaluation) limitsOf(z *zone) siteLimits {
	if z.sites == nil {
		return z.siteLimits
	}
	return z.sites[z.site(e.http.Host)]
}

// site returns the site of a host among those of the zone, or "" for what isn't named.
func (z *zone) site(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if _, ok := z.sites[host]; ok {
		return host
	}
	labels := strings.Split(host, ".")
	if len(labels) > maxLabels {
		return ""
	}
	for i := range labels { // as Caddy: each `*` is a label, from the left
		labels[i] = "*"
		wild := strings.Join(labels, ".")
		if _, ok := z.sites[wild]; ok {
			return wild
		}
	}
	return ""
}

// maxLabels bounds how many labels of a host are compared with wildcards.
const maxLabels = 16

// chargeShared adds the debits of limits that the client shares with others. A session that
// is used in another network also takes from that network's ceiling. Otherwise a hundred
// sessions would have a hundred quarters of a limit there.
func (e *evaluation) chargeShared(set *limitSet, cost int64) {
	c := e.client
	if c.usesElsewhere() {
		for _, p := range set.elsewhere.policies {
			e.debit(p, c.Key, cost)
		}
	}
	if c.usesNetwork() {
		for _, p := range set.networks.policies {
			d := e.debit(p, c.networkSubject.Key, cost)
			if p.scaling != nil {
				d.Client, d.Scaling = &c.networkSubject, p.scaling
			}
		}
	}
}

// usesElsewhere reports whether the client takes from what sessions have outside their networks.
func (c *client) usesElsewhere() bool { return c.Session.Elsewhere || c.CrossSite }

// usesNetwork reports whether the client takes from what its network has together.
func (c *client) usesNetwork() bool {
	return c.Session.Elsewhere || c.Kind == identity.Fingerprint || c.Kind == identity.ByPrefix
}
