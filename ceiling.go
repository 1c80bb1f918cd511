package tally

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// defaultCeiling is how many clients' worth all the unverified ones of a network
// have together.
const defaultCeiling = 4

// maxCeiling is the largest factor of a ceiling.
const maxCeiling = 1000

// Of its limits, in percent: what the unverified clients of a network have
// together that is squeezed, and what a session has away from the network that it
// was issued to.
const (
	squeezedShare  = 50
	elsewhereShare = 25
)

// checkCeiling checks what is there for zones that count per client.
func (z *Zone) checkCeiling() error {
	switch {
	case z.PrefixCeiling != 0 && z.per != perClient:
		return fmt.Errorf("prefix_ceiling is for zones that count per client, this one counts per %s", z.per)
	case z.PrefixCeiling < 0 || z.PrefixCeiling > maxCeiling:
		return fmt.Errorf("prefix_ceiling: must be between 1 and %d, got %d", maxCeiling, z.PrefixCeiling)
	case z.per == perClient && (z.IPv4Prefix != 0 || z.IPv6Prefix != 0):
		return fmt.Errorf("per client takes ipv4_prefix and ipv6_prefix from the global option rate_limit, so that a client is the same in all zones")
	}
	return nil
}

// addShared adds to each limit of a zone that counts per client what several
// share: the unverified clients of a network, so that nobody gains by inventing
// more of them, and those who use one session elsewhere.
func (s *limitSet) addShared(z *Zone) error {
	s.networks, s.elsewhere = new(limitSet), new(limitSet)
	for _, p := range s.policies {
		ceiling, err := p.times(z.ceiling())
		if err != nil {
			return fmt.Errorf("prefix_ceiling: %w", err)
		}
		network := p.derive(s.networks, "network", ceiling)
		if z.app.Pressure.isOn() {
			network.fair = z.app.squeezable(&network.Limit, p.Limit.Scale(squeezedShare))
		}
		p.derive(s.elsewhere, "elsewhere", p.Limit.Scale(elsewhereShare))
	}
	s.networks.field, s.elsewhere.field = joinFields(s.networks.policies), joinFields(s.elsewhere.policies)
	return nil
}

func (z *Zone) ceiling() int64 {
	if z.PrefixCeiling == 0 {
		return defaultCeiling
	}
	return int64(z.PrefixCeiling)
}

// times returns the limit of n clients together.
func (p *policy) times(n int64) (limiter.Limit, error) {
	amount, burst := min(p.Amount()*n, limiter.MaxAmount), int64(0)
	if p.Algorithm() == limiter.TokenBucket {
		burst = min(p.Capacity()*n, limiter.MaxAmount)
	}
	return p.WithAmount(amount, burst)
}

// derive adds to a set a limit of the same kind, with counts of its own.
func (p *policy) derive(to *limitSet, what string, limit limiter.Limit) *policy {
	id := binary.BigEndian.AppendUint64(nil, uint64(p.ID))
	derived := newPolicy(p.name+"-"+what, p.zone.app.limit(storage.LimitID(xxhash.Sum64(append(id, what...))), limit))
	derived.zone, derived.set, derived.of = p.zone, to, p
	to.policies = append(to.policies, derived)
	return derived
}

// squeezable returns how a limit becomes another while what it counts by is
// banned, and takes no notice of anything else.
func (a *App) squeezable(limit *engine.Limit, squeezed limiter.Limit) *engine.Fairness {
	banned := a.limit(limit.ID, squeezed)
	fair := &engine.Fairness{Banned: &banned}
	for level := range reputation.Levels {
		fair.Levels[level] = limit
	}
	return fair
}

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

// provisionShared readies the metrics of what clients share.
func (s *limitSet) provisionShared() {
	for _, shared := range []*limitSet{s.networks, s.elsewhere} {
		if shared == nil {
			continue
		}
		for _, p := range shared.policies {
			p.meter = newLimitMeter(p.zone.Name, p.name)
		}
	}
}

// countClient counts a decision by what its client is known by, and notes who
// comes from where.
func (h *Handler) countClient(rq *request, d engine.Decision) {
	c := rq.client
	if c == nil || !c.known {
		return
	}
	if !h.DisableMetrics {
		clientMeters[c.kind].count(d)
	}
	h.app.noteCrowd(c, d, d.Reason == engine.Blocked && rq.of[d.Draw].of != nil)
}
