package tally

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// defaultCeiling is how many times one client's limit all unverified clients of a network
// have together.
const defaultCeiling = 4

// maxCeiling is the largest factor of a ceiling.
const maxCeiling = 1000

// Shares of a client's limit, in percent: what all unverified clients of a squeezed network
// have together, and what a session has outside the network that it was issued to.
const (
	squeezedShare  = 50
	elsewhereShare = 25
)

// checkCeiling checks the options of zones that count per client.
func (z *zoneSetup) checkCeiling() error {
	switch {
	case z.PrefixCeiling != 0 && z.run.Per != enforce.PerClient:
		return fmt.Errorf("prefix_ceiling is for zones that count per client, this one counts per %s", z.run.Per)
	case z.PrefixCeiling < 0 || z.PrefixCeiling > maxCeiling:
		return fmt.Errorf("prefix_ceiling: must be between 1 and %d, got %d", maxCeiling, z.PrefixCeiling)
	case z.run.Per == enforce.PerClient && (z.IPv4Prefix != 0 || z.IPv6Prefix != 0):
		return fmt.Errorf("per client takes ipv4_prefix and ipv6_prefix from the global option rate_limit, so that a client is the same in all zones")
	}
	return nil
}

// addShared adds to each limit of a zone that counts per client two that clients share: one
// of all unverified clients of a network, so that nobody gains by inventing more of them,
// and one of everybody who uses a session outside its network.
func (z *zoneSetup) addShared(s *enforce.LimitSet) error {
	s.Networks, s.Elsewhere = new(enforce.LimitSet), new(enforce.LimitSet)
	for _, p := range slices.Concat(s.Policies, s.Shadows) {
		ceiling, err := p.Times(z.ceiling())
		if err != nil {
			return fmt.Errorf("prefix_ceiling: %w", err)
		}
		network := z.derive(p, s.Networks, "network", ceiling)
		if z.app.Pressure.isOn() {
			network.Scaling = z.app.squeezable(&network.Limit, p.Limit.Scale(squeezedShare))
		}
		z.derive(p, s.Elsewhere, "elsewhere", p.Limit.Scale(elsewhereShare))
	}
	s.Networks.Field, s.Elsewhere.Field = enforce.JoinFields(s.Networks.Policies), enforce.JoinFields(s.Elsewhere.Policies)
	return nil
}

func (z *Zone) ceiling() int64 {
	if z.PrefixCeiling == 0 {
		return defaultCeiling
	}
	return int64(z.PrefixCeiling)
}

// derive adds to a set a limit of the same kind as another, with counts of its own.
func (z *zoneSetup) derive(p *enforce.Policy, to *enforce.LimitSet, what string, limit limiter.Limit) *enforce.Policy {
	id := binary.BigEndian.AppendUint64(nil, uint64(p.ID))
	derived := enforce.NewPolicy(p.Name+"-"+what, z.app.limit(storage.LimitID(xxhash.Sum64(append(id, what...))), limit))
	derived.Zone, derived.Set, derived.Of, derived.Shadow = p.Zone, to, p, p.Shadow
	to.Add(derived)
	return derived
}

// squeezable returns a scaling that replaces a limit while its network is squeezed, and does
// nothing else.
func (a *App) squeezable(limit *engine.Limit, squeezed limiter.Limit) *engine.Scaling {
	banned := a.limit(limit.ID, squeezed)
	scaling := &engine.Scaling{Banned: &banned}
	for level := range reputation.Levels {
		scaling.Levels[level] = limit
	}
	return scaling
}

// provisionShared makes the metrics of the limits that clients share.
func provisionShared(s *enforce.LimitSet) {
	for _, shared := range []*enforce.LimitSet{s.Networks, s.Elsewhere} {
		if shared == nil {
			continue
		}
		for _, p := range slices.Concat(shared.Policies, shared.Shadows) {
			p.Meter = p.NewMeter()
		}
	}
}
