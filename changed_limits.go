package tally

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
)

// This file warns of limits whose change makes machines count apart while a config is rolled out.

// limitKinds has all that the counts of limits depend on besides the key, in words, and whether
// the limit is enforced.
type limitKinds map[string]bool

// zoneTier is a tier in a zone. A zone with limits of its own has one, "".
type zoneTier struct{ zone, tier string }

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

// warnOfChangedLimits warns of each zone in which a limit took the place of one that counts apart
// from it. It matters in a store that several machines use.
func (h *instance) warnOfChangedLimits(now map[zoneTier]limitKinds, log *zap.Logger) {
	if h.settings.address == "" {
		return
	}
	former, changed := make(map[string][]string), make(map[string][]string)
	for of, kinds := range h.replaceKinds(now) {
		gone, added := kinds.replacedBy(now[of])
		if len(gone) > 0 && len(added) > 0 {
			former[of.zone], changed[of.zone] = append(former[of.zone], gone...), append(changed[of.zone], added...)
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(changed)) {
		log.Warn("the limits of a zone count in another way than before, and from 0. Until all machines have this config, those with the former one count apart, and a client may use both limits: load it everywhere soon. To avoid that, keep the former limit beside the new one for a window first. A change of the amount alone counts on",
			zap.String("zone", zone), zap.Strings("former", sortedSet(former[zone])), zap.Strings("changed", sortedSet(changed[zone])), h.settings.where())
	}
}

// replaceKinds notes the kinds of limits that are in force, and returns those that were: none
// at the first start. They are those of another instance if the reload changed settings.
func (h *instance) replaceKinds(now map[zoneTier]limitKinds) (former map[zoneTier]limitKinds) {
	eachInstance(func(other *instance) {
		if kinds := other.kinds.Load(); kinds != nil && other.settings.store == h.settings.store {
			former = *kinds
		}
	})
	if kinds := h.kinds.Swap(&now); kinds != nil {
		former = *kinds
	}
	return former
}

// replacedBy returns the kinds that are enforced no more, and those that are now and were not
// counted before.
func (k limitKinds) replacedBy(now limitKinds) (gone, added []string) {
	for kind, enforced := range k {
		if enforced && !now[kind] {
			gone = append(gone, kind)
		}
	}
	for kind, enforced := range now {
		if _, counted := k[kind]; enforced && !counted {
			added = append(added, kind)
		}
	}
	return gone, added
}

func sortedSet(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}
