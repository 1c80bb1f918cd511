package tally

import (
	"fmt"
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

// checkCosts finds zones that no request can pass, or that count nothing, because of
// what requests cost.
func (z *zoneSetup) checkCosts() []Advice {
	if z.run.DeniesAll || len(z.run.Costs) > 0 || z.run.Cost.From != "" {
		return nil
	}
	if z.run.Cost.Fixed == 0 {
		return []Advice{z.advice("cost: no request uses up anything, so the zone limits nobody", "a cost of at least 1, or costs with matchers for the requests that count")}
	}
	for _, set := range z.run.Sets() {
		for _, p := range slices.Concat(set.Policies, set.Shadows) {
			if p.Capacity() < z.run.Cost.Fixed {
				return []Advice{z.advice(fmt.Sprintf("cost: every request costs %d, and the limit %q never has more than %d, so all %s refused", z.run.Cost.Fixed, p.Name, p.Capacity(), areOrWouldBe(p)),
					fmt.Sprintf("a cost of at most %d, or a limit of at least %d", p.Capacity(), z.run.Cost.Fixed))}
			}
		}
	}
	return nil
}

func areOrWouldBe(p *enforce.Policy) string {
	if p.Shadow {
		return "would be"
	}
	return "are"
}
