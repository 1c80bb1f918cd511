package config

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/routing"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// newLimitSet compiles limits for the zone. Their counts are stored under the name of the zone and
// the kind of each limit, not under the tier: a client whose tier changes keeps its counts if the
// limits of both tiers differ only in their amounts.
func (z *zoneCompiler) newLimitSet(site string, limits []Limit) (*enforce.LimitSet, error) {
	if z.RefusesNothing() {
		limits = enforced(limits) // they get the names of enforced limits
	}
	compiled, err := compileLimits(z.Name, limits)
	if err != nil {
		return nil, err
	}
	set := new(enforce.LimitSet)
	same, above := make(map[Limit]uint64), make(map[Limit]*enforce.Policy)
	for i, l := range limits {
		arithmetic := compiled[i].Limit
		if z.app.Region != nil && arithmetic.Window() == limiter.Month {
			return nil,
				fmt.Errorf("limit: %s: regions share no months: write limit %d/30d; or use a Caddy without region for it",
					enforce.LimitText(arithmetic), arithmetic.Amount())
		}
		kind := Limit{
			Algorithm: arithmetic.Algorithm().String(), Window: l.Window,
			Slots: int(arithmetic.Slots()), Timezone: l.Timezone,
		}
		p := enforce.NewPolicy(compiled[i].name, z.app.limit(limitID(z.countedAs(site), kind, same[kind]), arithmetic))
		p.Shadow = z.RefusesNothing() || compiled[i].shadow
		p.Penalty = penaltyOf(p, l)
		p.Join(z.run, set)
		p.Kind = z.kindInWords(kind)
		p.Scaling = z.scalingOf(&p.Limit)
		same[kind]++
		if p.Shadow {
			above[kind] = p
		} else if above[kind] != nil {
			set.Misplaced = above[kind]
		}
		set.Add(p)
	}
	markQuota(set)
	set.Field = enforce.JoinFields(set.Policies)
	if z.run.Per == enforce.PerClient {
		return set, z.addShared(set)
	}
	return set, nil
}

// penaltyOf returns the penalty of a limit, or nil. The names of its keys must find their records for as long as it
// lasts. A shadow limit has records of its own.
func penaltyOf(p *enforce.Policy, l Limit) *engine.Penalty {
	if l.Block == 0 {
		return nil
	}
	penalty := &engine.Penalty{Scope: p.ID, For: time.Duration(l.Block), FromLast: l.BlockFromLast}
	if p.Shadow {
		penalty.Scope ^= 1
	}
	*p.LongestRetention = max(*p.LongestRetention, penalty.Lasts())
	return penalty
}

// markQuota marks the limit whose window is longer than all others.
func markQuota(s *enforce.LimitSet) {
	var longest, second time.Duration
	var quota *enforce.Policy
	for _, p := range s.Policies {
		if w := p.Window(); w > longest {
			longest, second, quota = w, longest, p
		} else {
			second = max(second, w)
		}
	}
	if second > 0 && second < longest {
		quota.Quota = true
	}
}

// compileSites compiles the zone's own limits or those of all tiers, once for each site with
// separate counts.
func (z *zoneCompiler) compileSites() (err error) {
	if err := z.checkLimits(); err != nil {
		return err
	}
	if z.run.Sites == nil {
		z.run.SiteLimits, err = z.limitsOn("")
		return err
	}
	for site := range z.run.Sites {
		if z.run.Sites[site], err = z.limitsOn(site); err != nil {
			return err
		}
	}
	return nil
}

// checkLimits checks that limits are given in only one form.
func (z *zoneCompiler) checkLimits() error {
	tiers, peer := z.Tiers || z.Tier != "", z.Window != 0 || z.MaxEvents != 0
	switch {
	case z.Tiers && z.Tier != "":
		return errors.New("tiers and tier exclude one another; leave one out")
	case tiers && (len(z.Limits) > 0 || peer):
		return errors.New("tiers and limits of the zone's own exclude one another; a second zone can have them")
	case tiers && len(z.app.Tiers) == 0:
		return errors.New("tiers: no tier is configured: write a `tier` into the global option rate_limit")
	case z.Tiers && z.app.APIKeys == nil:
		return errors.New("tiers: clients have none without `api_keys` in the global option rate_limit")
	case z.DefaultTier != "" && z.Tier == "":
		return errors.New("default_tier belongs to tier, which is missing")
	case tiers:
		return z.checkTier()
	case len(z.Limits) > 0 && peer:
		return errors.New("limits and window/max_events exclude one another; write it as one more limit")
	case len(z.Limits) == 0 && len(z.effective) == 0 && z.Concurrent == nil:
		return errors.New("needs a limit, such as 5/1m")
	}
	return nil
}

// limitsOn compiles the zone's limits on a site.
func (z *zoneCompiler) limitsOn(site string) (l enforce.SiteLimits, err error) {
	if !z.Tiers && z.Tier == "" {
		l.Own, err = z.newLimitSet(site, append(z.Limits, z.effective...))
		return l, err
	}
	l.ByTier = make(map[string]*enforce.LimitSet)
	for _, t := range z.app.Tiers {
		if l.ByTier[t.Name] = nil; t.Unlimited {
			continue
		}
		if l.ByTier[t.Name], err = z.newLimitSet(site, t.Limits); err != nil {
			return l, fmt.Errorf("tier %q: %w", t.Name, err)
		}
	}
	return l, nil
}

// checkTier checks the zone's names of tiers.
func (z *zoneCompiler) checkTier() error {
	for _, name := range []string{z.Tier, z.DefaultTier} {
		if len(routing.PlaceholderNames(name)) > 0 && name == z.Tier {
			if err := routing.CheckPlaceholders(name); err != nil {
				return fmt.Errorf("tier: %w", err)
			}
		} else if name != "" && z.app.tier(name) == nil {
			return fmt.Errorf("tier: %w", z.app.unknownTier(name))
		}
	}
	return nil
}

// limit returns a limit that counts together with all others of its ID, even if their amounts
// differ: all of them use the same names for their keys.
func (c *Compiler) limit(id storage.LimitID, l limiter.Limit) engine.Limit {
	if c.retentions == nil {
		c.retentions = make(map[storage.LimitID]*time.Duration)
	}
	if c.retentions[id] == nil {
		c.retentions[id] = new(time.Duration)
	}
	*c.retentions[id] = max(*c.retentions[id], l.Retention())
	return engine.Limit{ID: id, Rate: l, LongestRetention: c.retentions[id]}
}

// limitID returns an ID that depends on everything that the counts of a limit depend on. nth
// distinguishes otherwise equal limits.
func limitID(zone string, kind Limit, nth uint64) storage.LimitID {
	id := binary.BigEndian.AppendUint64(nil, uint64(len(zone)))
	id = append(id, zone...)
	id = append(id, kind.Algorithm...)
	for _, n := range []uint64{uint64(kind.Window), uint64(kind.Slots), nth} {
		id = binary.BigEndian.AppendUint64(id, n)
	}
	id = append(id, kind.Timezone...)
	return storage.LimitID(xxhash.Sum64(id))
}

// kindInWords lists everything that the counts of a limit depend on besides the key.
func (z *zoneCompiler) kindInWords(kind Limit) string {
	text := kind.Algorithm + " " + enforce.WindowText(time.Duration(kind.Window))
	if kind.Slots > 1 {
		text += fmt.Sprintf(", %d slots", kind.Slots)
	}
	if kind.Timezone != "" {
		text += ", " + kind.Timezone
	}
	if z.run.Sites != nil {
		text += ", per site"
	}
	return text
}

// defaultCeiling is the ratio of the limit for all unverified clients of a network to a single
// client's.
const defaultCeiling = 4

// maxCeiling is the largest factor of a ceiling.
const maxCeiling = 1000

// Shares of a client's limit, in percent: that of all unverified clients of a throttled network
// together, and that of a session outside its network.
const (
	squeezedShare  = 50
	elsewhereShare = 25
)

// checkCeiling checks the options of zones that count per client.
func (z *zoneCompiler) checkCeiling() error {
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

// addShared adds two shared limits for each limit of a zone that counts per client: one for all
// unverified clients of a network, so that inventing more of them gains nothing, and one for all
// users of a session outside its network.
func (z *zoneCompiler) addShared(s *enforce.LimitSet) error {
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
	s.Networks.Field, s.Elsewhere.Field = enforce.JoinFields(s.Networks.Policies),
		enforce.JoinFields(s.Elsewhere.Policies)
	return nil
}

func (z *Zone) ceiling() int64 {
	if z.PrefixCeiling == 0 {
		return defaultCeiling
	}
	return int64(z.PrefixCeiling)
}

// derive adds a limit of the same kind as p to a set, with counts of its own.
func (z *zoneCompiler) derive(p *enforce.Policy, to *enforce.LimitSet, what string,
	limit limiter.Limit) *enforce.Policy {
	id := binary.BigEndian.AppendUint64(nil, uint64(p.ID))
	derived := enforce.NewPolicy(p.Name+"-"+what,
		z.app.limit(storage.LimitID(xxhash.Sum64(append(id, what...))), limit))
	derived.Of, derived.Shadow = p, p.Shadow
	derived.Join(p.Zone, to)
	to.Add(derived)
	return derived
}

// squeezable returns a scaling that replaces a limit while its network is throttled, and does
// nothing else.
func (c *Compiler) squeezable(limit *engine.Limit, squeezed limiter.Limit) *engine.Scaling {
	scaling := &engine.Scaling{Banned: new(c.limit(limit.ID, squeezed))}
	for level := range reputation.Levels {
		scaling.Levels[level] = limit
	}
	return scaling
}
