package instance

import (
	"maps"
	"slices"

	"go.uber.org/zap"
)

// This file warns of changed limits that make machines count separately while a config is rolled
// out.

// LimitKinds holds everything that the counts of limits depend on besides the key, in words, and
// whether the limit is enforced.
type LimitKinds map[string]bool

// ZoneTier is a tier in a zone. A zone with limits of its own has one, "".
type ZoneTier struct{ Zone, Tier string }

// WarnOfChangedLimits warns of each zone in which a limit replaced one with separate counts. That
// matters only in a store that several machines use.
func (inst *Instance) WarnOfChangedLimits(now map[ZoneTier]LimitKinds, log *zap.Logger) {
	if inst.Settings.Address == "" {
		return
	}
	former, changed := make(map[string][]string), make(map[string][]string)
	for zt, kinds := range inst.replaceKinds(now) {
		gone, added := kinds.replacedBy(now[zt])
		if len(gone) > 0 && len(added) > 0 {
			former[zt.Zone], changed[zt.Zone] = append(former[zt.Zone], gone...), append(changed[zt.Zone], added...)
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(changed)) {
		log.Warn("the limits of a zone count in another way than before, and from 0. Until all machines have this config, those with the former one count apart, and a client may use both limits: load it everywhere soon. To avoid that, keep the former limit beside the new one for a window first. A change of the amount alone counts on",
			zap.String("zone", zone), zap.Strings("former", sortedSet(former[zone])),
			zap.Strings("changed", sortedSet(changed[zone])), inst.Settings.where())
	}
}

// replaceKinds stores the kinds of the limits in force, and returns the former ones: none at the
// first start. They come from another instance if the reload changed settings.
func (inst *Instance) replaceKinds(now map[ZoneTier]LimitKinds) (former map[ZoneTier]LimitKinds) {
	Each(func(other *Instance) {
		if kinds := other.kinds.Load(); kinds != nil && other.Settings.Counts == inst.Settings.Counts {
			former = *kinds
		}
	})
	if kinds := inst.kinds.Swap(&now); kinds != nil {
		former = *kinds
	}
	return former
}

// replacedBy returns the kinds that are no longer enforced, and the enforced ones that weren't
// counted before.
func (k LimitKinds) replacedBy(now LimitKinds) (gone, added []string) {
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
