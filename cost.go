package tally

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/placeholder"
)

// newCostRule returns what a cost stands for.
func newCostRule(cost string) (costRule, error) {
	if cost == "" {
		return costRule{fixed: 1}, nil
	}
	if len(placeholder.Names(cost)) > 0 {
		return costRule{from: cost}, placeholder.Check(cost)
	}
	fixed, err := strconv.ParseInt(cost, 10, 64)
	if err != nil || fixed < 0 {
		return costRule{}, fmt.Errorf("must be a whole number from 0, or a placeholder that holds one, got %q", cost)
	}
	return costRule{fixed: fixed}, nil
}

// provisionCost settles what a request costs.
func (z *zoneSetup) provisionCost() (err error) {
	if z.MaxCost < 0 {
		return fmt.Errorf("max_cost: must be at least 1, got %d", z.MaxCost)
	}
	if z.run.cost, err = newCostRule(z.Cost); err != nil {
		return fmt.Errorf("cost: %w", err)
	}
	z.run.costs = make([]costRule, len(z.Costs))
	for i := range z.Costs {
		if z.run.costs[i], err = z.Costs[i].provision(z.ctx); err != nil {
			return fmt.Errorf("costs: %w", err)
		}
	}
	z.settleSpellings()
	for _, p := range append(z.run.costs, z.run.cost) {
		if z.MaxCost != 0 && p.fixed > z.MaxCost {
			return fmt.Errorf("cost: %d is above max_cost, which is %d", p.fixed, z.MaxCost)
		}
	}
	return nil
}

// settleSpellings makes matchers of costs match what costs more in every spelling,
// and what costs less only as it is written.
func (z *zoneSetup) settleSpellings() {
	for i := range z.run.costs {
		if z.isDiscount(i) {
			matcher.ForExemption(z.run.costs[i].matchers)
			continue
		}
		z.warnOfSpellings("cost "+z.Costs[i].Cost, z.run.costs[i].matchers)
		matcher.ForLimit(z.run.costs[i].matchers)
	}
}

// isDiscount reports whether a request would cost more if the nth price weren't for it.
func (z *Zone) isDiscount(n int) bool {
	p := &z.run.costs[n]
	if p.from != "" {
		return false
	}
	return p.fixed < z.run.cost.fixed || slices.ContainsFunc(z.run.costs[n+1:], func(later costRule) bool { return p.fixed < later.fixed })
}

func (c *Cost) provision(ctx caddy.Context) (costRule, error) {
	p, err := c.rule()
	if err != nil {
		return costRule{}, err
	}
	p.matchers, err = loadMatchers(ctx, c)
	return p, err
}

// rule checks the cost, and returns it without its matchers.
func (c *Cost) rule() (costRule, error) {
	if c.Cost == "" {
		return costRule{}, errors.New("a cost is missing; give it, or leave out what it is for")
	}
	p, err := newCostRule(c.Cost)
	if err != nil {
		return costRule{}, err
	}
	return p, matcher.CheckSets(c.MatcherSetsRaw)
}
