package tally

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// price is a cost ready for use.
type price struct {
	matchers caddyhttp.MatcherSets
	fixed    int64  // unless from is given
	from     string // placeholders that hold the cost
}

// newPrice returns what a cost stands for.
func newPrice(cost string) (price, error) {
	if cost == "" {
		return price{fixed: 1}, nil
	}
	if len(placeholders(cost)) > 0 {
		return price{from: cost}, checkPlaceholders(cost)
	}
	fixed, err := strconv.ParseInt(cost, 10, 64)
	if err != nil || fixed < 0 {
		return price{}, fmt.Errorf("must be a whole number from 0, or a placeholder that holds one, got %q", cost)
	}
	return price{fixed: fixed}, nil
}

// provisionCost settles what a request costs.
func (z *Zone) provisionCost(ctx caddy.Context, log *zap.Logger) (err error) {
	if z.MaxCost < 0 {
		return fmt.Errorf("max_cost: must be at least 1, got %d", z.MaxCost)
	}
	if z.price, err = newPrice(z.Cost); err != nil {
		return fmt.Errorf("cost: %w", err)
	}
	z.prices = make([]price, len(z.Costs))
	for i := range z.Costs {
		if z.prices[i], err = z.Costs[i].provision(ctx); err != nil {
			return fmt.Errorf("costs: %w", err)
		}
	}
	z.settleSpellings(log)
	for _, p := range append(z.prices, z.price) {
		if z.MaxCost != 0 && p.fixed > z.MaxCost {
			return fmt.Errorf("cost: %d is above max_cost, which is %d", p.fixed, z.MaxCost)
		}
	}
	return nil
}

// settleSpellings makes matchers of costs match what costs more in every spelling,
// and what costs less only as it is written.
func (z *Zone) settleSpellings(log *zap.Logger) {
	for i := range z.prices {
		if z.isBargain(i) {
			forExemption(z.prices[i].matchers)
			continue
		}
		z.warnOfSpellings(log, "cost "+z.Costs[i].Cost, z.prices[i].matchers)
		forLimit(z.prices[i].matchers)
	}
}

// isBargain reports whether a request would cost more if the nth price weren't for it.
func (z *Zone) isBargain(n int) bool {
	p := &z.prices[n]
	if p.from != "" {
		return false
	}
	return p.fixed < z.price.fixed || slices.ContainsFunc(z.prices[n+1:], func(later price) bool { return p.fixed < later.fixed })
}

func (c *Cost) provision(ctx caddy.Context) (price, error) {
	if c.Cost == "" {
		return price{}, errors.New("a cost is missing; give it, or leave out what it is for")
	}
	p, err := newPrice(c.Cost)
	if err != nil {
		return price{}, err
	}
	if err := checkMatcherSets(c.MatcherSetsRaw); err != nil {
		return price{}, err
	}
	p.matchers, err = loadMatchers(ctx, c)
	return p, err
}

// cost returns what the request costs in a zone.
func (rq *request) cost(z *Zone) (int64, error) {
	p, err := rq.price(z)
	if err != nil {
		return 0, err
	}
	cost := p.fixed
	if p.from != "" {
		cost = parseCost(rq.repl.ReplaceAll(p.from, ""))
	}
	if z.MaxCost != 0 {
		cost = min(cost, z.MaxCost)
	}
	return cost, nil
}

// parseCost returns the cost that a placeholder holds: 1 where that is no number
// from 0.
func parseCost(text string) int64 {
	cost, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	switch {
	case cost < 0, err != nil && cost != math.MaxInt64: // which is what too large a number gives
		return 1
	}
	return cost
}
