package tally

import (
	"maps"
	"slices"

	"go.uber.org/zap"
)

// This file warns of limits whose change makes machines count apart while a config is rolled out.

// limitKinds has all that the counts of limits depend on besides the key, in words, and whether
// the limit is enforced.
type limitKinds map[string]bool

// zoneTier is a tier in a zone. A zone with limits of its own has one, "".
type zoneTier struct{ zone, tier string }

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
