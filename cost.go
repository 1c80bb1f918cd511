package tally

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/placeholder"
)

// newCostRule returns what a cost stands for.
func newCostRule(cost string) (enforce.CostRule, error) {
	if cost == "" {
		return enforce.CostRule{Fixed: 1}, nil
	}
	if len(placeholder.Names(cost)) > 0 {
		return enforce.CostRule{From: cost}, placeholder.Check(cost)
	}
	fixed, err := strconv.ParseInt(cost, 10, 64)
	if err != nil || fixed < 0 {
		return enforce.CostRule{}, fmt.Errorf("must be a whole number from 0, or a placeholder that holds one, got %q", cost)
	}
	return enforce.CostRule{Fixed: fixed}, nil
}

// provisionCost settles what a request costs.
func (z *zoneSetup) provisionCost() (err error) {
	if z.MaxCost < 0 {
		return fmt.Errorf("max_cost: must be at least 1, got %d", z.MaxCost)
	}
	if z.run.Cost, err = newCostRule(z.Cost); err != nil {
		return fmt.Errorf("cost: %w", err)
	}
	z.run.Costs = make([]enforce.CostRule, len(z.Costs))
	for i := range z.Costs {
		if z.run.Costs[i], err = z.Costs[i].provision(z.ctx); err != nil {
			return fmt.Errorf("costs: %w", err)
		}
	}
	z.settleSpellings()
	for _, p := range append(z.run.Costs, z.run.Cost) {
		if z.MaxCost != 0 && p.Fixed > z.MaxCost {
			return fmt.Errorf("cost: %d is above max_cost, which is %d", p.Fixed, z.MaxCost)
		}
	}
	return nil
}

// settleSpellings makes matchers of costs match what costs more in every spelling,
// and what costs less only as it is written.
func (z *zoneSetup) settleSpellings() {
	for i := range z.run.Costs {
		if z.isDiscount(i) {
			matcher.ForExemption(z.run.Costs[i].Matchers)
			continue
		}
		z.warnOfSpellings("cost "+z.Costs[i].Cost, z.run.Costs[i].Matchers)
		matcher.ForLimit(z.run.Costs[i].Matchers)
	}
}

// isDiscount reports whether a request would cost more if the nth price weren't for it.
func (z *Zone) isDiscount(n int) bool {
	p := &z.run.Costs[n]
	if p.From != "" {
		return false
	}
	return p.Fixed < z.run.Cost.Fixed || slices.ContainsFunc(z.run.Costs[n+1:], func(later enforce.CostRule) bool { return p.Fixed < later.Fixed })
}

func (c *Cost) provision(ctx caddy.Context) (enforce.CostRule, error) {
	p, err := c.rule()
	if err != nil {
		return enforce.CostRule{}, err
	}
	p.Matchers, err = loadMatchers(ctx, c)
	return p, err
}

// rule checks the cost, and returns it without its matchers.
func (c *Cost) rule() (enforce.CostRule, error) {
	if c.Cost == "" {
		return enforce.CostRule{}, errors.New("a cost is missing; give it, or leave out what it is for")
	}
	p, err := newCostRule(c.Cost)
	if err != nil {
		return enforce.CostRule{}, err
	}
	return p, matcher.CheckSets(c.MatcherSetsRaw)
}
