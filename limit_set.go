package tally

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/placeholder"
)

// newLimitSet compiles limits for a zone. Their counts are told apart by the
// name of the zone and what the limits are, and not by whose they are: a client
// that changes its tier keeps its counts where the tiers' limits differ in their
// amounts only.
func newLimitSet(z *Zone, site string, limits []Limit) (*limitSet, error) {
	set := new(limitSet)
	names := make(map[string]bool)
	same := make(map[Limit]uint64)
	for i, l := range limits {
		arithmetic, err := l.compile()
		if err != nil {
			return nil, fmt.Errorf("limit: %w", err)
		}
		kind := Limit{
			Algorithm: arithmetic.Algorithm().String(), Window: l.Window,
			Slots: int(arithmetic.Slots()), Timezone: l.Timezone,
		}
		name := limitName(z.Name, i, l)
		p := newPolicy(name, z.app.limit(limitID(z.countedAs(site), kind, same[kind]), arithmetic))
		p.zone, p.set = z, set
		p.scaling = z.app.scalingOf(z, &p.Limit)
		same[kind]++
		if names[name] {
			return nil, fmt.Errorf("limit: two limits are named %q; name one of them otherwise with `name`", name)
		}
		names[name] = true
		set.policies = append(set.policies, p)
	}
	set.markQuota()
	set.field = joinFields(set.policies)
	if z.per == perClient {
		return set, set.addShared(z)
	}
	return set, nil
}

// markQuota marks the limit that has a longer window than all others.
func (s *limitSet) markQuota() {
	var longest, second time.Duration
	var of *policy
	for _, p := range s.policies {
		if w := p.Window(); w > longest {
			longest, second, of = w, longest, p
		} else {
			second = max(second, w)
		}
	}
	if second > 0 && second < longest {
		of.quota = true
	}
}

// provisionLimits compiles the limits, the zone's own or those of all tiers, for each
// site that counts on its own.
func (z *Zone) provisionLimits() (err error) {
	if err := z.checkLimits(); err != nil {
		return err
	}
	if z.sites == nil {
		z.siteLimits, err = z.compile("")
		return err
	}
	for site := range z.sites {
		if z.sites[site], err = z.compile(site); err != nil {
			return err
		}
	}
	return nil
}

// checkLimits checks that limits are given in one way.
func (z *Zone) checkLimits() error {
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
	case len(z.Limits) == 0 && len(z.effective) == 0:
		return errors.New("needs a limit, such as 5/1m")
	}
	return nil
}

// compile compiles the limits that the zone has on a site.
func (z *Zone) compile(site string) (l siteLimits, err error) {
	if !z.Tiers && z.Tier == "" {
		l.own, err = newLimitSet(z, site, append(z.Limits, z.effective...))
		return l, err
	}
	l.byTier = make(map[string]*limitSet)
	for _, t := range z.app.Tiers {
		if l.byTier[t.Name] = nil; t.Unlimited {
			continue
		}
		if l.byTier[t.Name], err = newLimitSet(z, site, t.Limits); err != nil {
			return l, fmt.Errorf("tier %q: %w", t.Name, err)
		}
	}
	return l, nil
}

// checkTier checks the names of tiers that the zone gives.
func (z *Zone) checkTier() error {
	for _, name := range []string{z.Tier, z.DefaultTier} {
		if len(placeholder.Names(name)) > 0 && name == z.Tier {
			if err := placeholder.Check(name); err != nil {
				return fmt.Errorf("tier: %w", err)
			}
		} else if name != "" && z.app.tier(name) == nil {
			return fmt.Errorf("tier: %w", z.app.unknownTier(name))
		}
	}
	return nil
}
