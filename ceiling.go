package tally

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

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
	case z.PrefixCeiling != 0 && z.run.per != perClient:
		return fmt.Errorf("prefix_ceiling is for zones that count per client, this one counts per %s", z.run.per)
	case z.PrefixCeiling < 0 || z.PrefixCeiling > maxCeiling:
		return fmt.Errorf("prefix_ceiling: must be between 1 and %d, got %d", maxCeiling, z.PrefixCeiling)
	case z.run.per == perClient && (z.IPv4Prefix != 0 || z.IPv6Prefix != 0):
		return fmt.Errorf("per client takes ipv4_prefix and ipv6_prefix from the global option rate_limit, so that a client is the same in all zones")
	}
	return nil
}

// addShared adds to each limit of a zone that counts per client two that clients share: one
// of all unverified clients of a network, so that nobody gains by inventing more of them,
// and one of everybody who uses a session outside its network.
func (z *zoneSetup) addShared(s *limitSet) error {
	s.networks, s.elsewhere = new(limitSet), new(limitSet)
	for _, p := range slices.Concat(s.policies, s.shadows) {
		ceiling, err := p.Times(z.ceiling())
		if err != nil {
			return fmt.Errorf("prefix_ceiling: %w", err)
		}
		network := z.derive(p, s.networks, "network", ceiling)
		if z.app.Pressure.isOn() {
			network.scaling = z.app.squeezable(&network.Limit, p.Limit.Scale(squeezedShare))
		}
		z.derive(p, s.elsewhere, "elsewhere", p.Limit.Scale(elsewhereShare))
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

// derive adds to a set a limit of the same kind as another, with counts of its own.
func (z *zoneSetup) derive(p *policy, to *limitSet, what string, limit limiter.Limit) *policy {
	id := binary.BigEndian.AppendUint64(nil, uint64(p.ID))
	derived := newPolicy(p.name+"-"+what, z.app.limit(storage.LimitID(xxhash.Sum64(append(id, what...))), limit))
	derived.zone, derived.set, derived.of, derived.shadow = p.zone, to, p, p.shadow
	to.add(derived)
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
func provisionShared(s *limitSet) {
	for _, shared := range []*limitSet{s.networks, s.elsewhere} {
		if shared == nil {
			continue
		}
		for _, p := range slices.Concat(shared.policies, shared.shadows) {
			p.meter = p.newMeter()
		}
	}
}
