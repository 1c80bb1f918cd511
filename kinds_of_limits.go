package tally

import (
	"fmt"
	"maps"
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/instance"
)

// kindsOfLimits returns the kinds of limits of all handlers.
func (a *shared) kindsOfLimits() map[instance.ZoneTier]instance.LimitKinds {
	all := make(map[instance.ZoneTier]instance.LimitKinds)
	for _, z := range a.allZones {
		for _, l := range append(slices.Collect(maps.Values(z.sites)), z.siteLimits) {
			z.addKinds(all, "", l.own)
			for tier, set := range l.byTier {
				z.addKinds(all, tier, set)
			}
		}
	}
	return all
}

// addKinds adds the kinds of a set, which may be nil.
func (z *zone) addKinds(to map[instance.ZoneTier]instance.LimitKinds, tier string, set *limitSet) {
	if set == nil {
		return
	}
	of, nth := instance.ZoneTier{Zone: z.Name, Tier: tier}, make(map[string]int)
	if to[of] == nil {
		to[of] = make(instance.LimitKinds)
	}
	for _, p := range slices.Concat(set.policies, set.shadows) {
		kind := p.kind
		if nth[kind]++; nth[kind] > 1 {
			kind = fmt.Sprintf("%s (%d)", kind, nth[kind])
		}
		to[of][kind] = to[of][kind] || !p.shadow
	}
}
