package tally

import (
	"net"
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// siteLimits are what clients can be held to in a zone, on one site if it counts each on
// its own.
type siteLimits struct {
	own    *limitSet
	byTier map[string]*limitSet // instead of own; nil for an unlimited tier
}

// limits returns what the request is held to in a zone, or nil if to nothing.
func (rq *request) limits(z *Zone) (*limitSet, error) {
	limits := rq.limitsOf(z)
	if limits.byTier == nil {
		return limits.own, nil
	}
	name, err := rq.tier(z)
	if err != nil {
		return nil, err
	}
	set, ok := limits.byTier[name]
	if !ok {
		set, ok = limits.byTier[z.DefaultTier]
	}
	if !ok && !rq.caller.preflight {
		return nil, errNoTier
	}
	return set, nil
}

// tier returns the name of the tier that the request has in a zone.
func (rq *request) tier(z *Zone) (string, error) {
	if z.Tiers {
		c := rq.whoCalls(z.app)
		return c.tier, c.err
	}
	if tier, ok := rq.serviceTier(z.app); ok {
		return tier, nil
	}
	return rq.repl.ReplaceAll(z.Tier, ""), nil
}

// limitsOf returns what a request can be held to in a zone.
func (rq *request) limitsOf(z *Zone) siteLimits {
	if z.sites == nil {
		return z.siteLimits
	}
	return z.sites[z.site(rq.http.Host)]
}

// site returns the site of a host among those of the zone, or "" for what isn't named.
func (z *Zone) site(host string) string {
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

// maxLabels bounds how many labels of a host are looked at.
const maxLabels = 16

// drawShared notes what the request of a client takes from limits that it shares. A
// session that is used elsewhere also takes from the ceiling of the network that it is
// used in, or a hundred sessions would be worth a hundred quarters of a limit there.
func (rq *request) drawShared(set *limitSet, cost int64) {
	c := rq.client
	if c.session.Elsewhere || c.ledHere {
		for _, p := range set.elsewhere.policies {
			rq.take(p, engine.Draw{Limit: &p.Limit, Key: c.self.Key, Cost: cost})
		}
	}
	if c.session.Elsewhere || c.kind == identity.Fingerprint || c.kind == identity.ByPrefix {
		for _, p := range set.networks.policies {
			draw := engine.Draw{Limit: &p.Limit, Key: c.crowd.Key, Cost: cost, Fair: p.fair}
			if p.fair != nil {
				draw.Client = &c.crowd
			}
			rq.take(p, draw)
		}
	}
}

// hides tells whether a client is not told of a draw, because it is of what others
// use as well and the client's own limit leaves it no more.
func (rq *request) hides(nth int) bool {
	own := rq.of[nth].of
	if own == nil {
		return false
	}
	i := slices.Index(rq.of, own)
	return rq.draws[i].Known && rq.draws[i].Quota.Remaining <= rq.draws[nth].Quota.Remaining
}

// keyOf returns what the request was counted by for a policy, or nil.
func (rq *request) keyOf(p *policy) []byte {
	if i := slices.Index(rq.of, p); i >= 0 {
		return rq.draws[i].Key
	}
	return nil
}
