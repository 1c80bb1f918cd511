package tally

import (
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// costRule is a cost ready for use.
type costRule struct {
	matchers caddyhttp.MatcherSets
	fixed    int64  // unless from is given
	from     string // placeholders that hold the cost
}

// costOf returns what a request costs in the zone.
func (z *zone) costOf(r *http.Request, repl *caddy.Replacer) (int64, error) {
	p, err := z.costRule(r)
	if err != nil {
		return 0, err
	}
	cost := p.fixed
	if p.from != "" {
		cost = parseCost(repl.ReplaceAll(p.from, ""))
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

// costRule returns the first rule that matches the request.
func (z *zone) costRule(r *http.Request) (*costRule, error) {
	for i := range z.costs {
		p := &z.costs[i]
		if matches, err := p.matchers.AnyMatchWithError(r); matches || err != nil {
			return p, err
		}
	}
	return &z.cost, nil
}
