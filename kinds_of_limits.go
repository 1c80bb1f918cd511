package tally

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// kindsOfLimits returns the kinds of limits of all handlers.
func (a *App) kindsOfLimits() map[zoneTier]limitKinds {
	all := make(map[zoneTier]limitKinds)
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
func (z *Zone) addKinds(to map[zoneTier]limitKinds, tier string, set *limitSet) {
	if set == nil {
		return
	}
	of, nth := zoneTier{z.Name, tier}, make(map[string]int)
	if to[of] == nil {
		to[of] = make(limitKinds)
	}
	for _, p := range slices.Concat(set.policies, set.shadows) {
		kind := p.kind
		if nth[kind]++; nth[kind] > 1 {
			kind = fmt.Sprintf("%s (%d)", kind, nth[kind])
		}
		to[of][kind] = to[of][kind] || !p.shadow
	}
}

// kindInWords says what the counts of a limit depend on besides the key.
func (z *Zone) kindInWords(kind Limit) string {
	text := kind.Algorithm + " " + shortDuration(time.Duration(kind.Window))
	if kind.Slots > 1 {
		text += fmt.Sprintf(", %d slots", kind.Slots)
	}
	if kind.Timezone != "" {
		text += ", " + kind.Timezone
	}
	if z.sites != nil {
		text += ", per site"
	}
	return text
}
