package tally

import (
	"fmt"
	"slices"
)

// warnOfCosts finds zones that no request can pass, or that count nothing, because of
// what requests cost.
func (z *zoneSetup) warnOfCosts() {
	if z.deniesAll || len(z.costs) > 0 || z.cost.from != "" {
		return
	}
	if z.cost.fixed == 0 {
		z.warn("cost: no request uses up anything, so the zone limits nobody", "a cost of at least 1, or costs with matchers for the requests that count")
		return
	}
	for _, set := range z.sets() {
		for _, p := range slices.Concat(set.policies, set.shadows) {
			if p.Capacity() < z.cost.fixed {
				z.warn(fmt.Sprintf("cost: every request costs %d, and the limit %q never has more than %d, so all %s refused", z.cost.fixed, p.name, p.Capacity(), areOrWouldBe(p)),
					fmt.Sprintf("a cost of at most %d, or a limit of at least %d", p.Capacity(), z.cost.fixed))
				return
			}
		}
	}
}

func areOrWouldBe(p *policy) string {
	if p.shadow {
		return "would be"
	}
	return "are"
}
