package tally

import (
	"fmt"
	"slices"
)

// checkCosts finds zones that no request can pass, or that count nothing, because of
// what requests cost.
func (z *zoneSetup) checkCosts() []Advice {
	if z.run.deniesAll || len(z.run.costs) > 0 || z.run.cost.from != "" {
		return nil
	}
	if z.run.cost.fixed == 0 {
		return []Advice{z.advice("cost: no request uses up anything, so the zone limits nobody", "a cost of at least 1, or costs with matchers for the requests that count")}
	}
	for _, set := range z.run.sets() {
		for _, p := range slices.Concat(set.policies, set.shadows) {
			if p.Capacity() < z.run.cost.fixed {
				return []Advice{z.advice(fmt.Sprintf("cost: every request costs %d, and the limit %q never has more than %d, so all %s refused", z.run.cost.fixed, p.name, p.Capacity(), areOrWouldBe(p)),
					fmt.Sprintf("a cost of at most %d, or a limit of at least %d", p.Capacity(), z.run.cost.fixed))}
			}
		}
	}
	return nil
}

func areOrWouldBe(p *policy) string {
	if p.shadow {
		return "would be"
	}
	return "are"
}
