package enforce

import (
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// CostRule is a cost ready for use.
type CostRule struct {
	Matchers caddyhttp.MatcherSets
	Fixed    int64  // unless From is set
	From     string // placeholders for the cost
}

// CostOf returns the cost of a request in the zone.
func (z *Zone) CostOf(r *http.Request, repl *caddy.Replacer) (int64, error) {
	p, err := z.costRule(r)
	if err != nil {
		return 0, err
	}
	cost := p.Fixed
	if p.From != "" {
		cost = parseCost(repl.ReplaceAll(p.From, ""))
	}
	if z.MaxCost != 0 {
		cost = min(cost, z.MaxCost)
	}
	return cost, nil
}

// parseCost returns the cost that a placeholder holds: 1 if it isn't an integer of at least 0.
func parseCost(text string) int64 {
	cost, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	switch {
	case cost < 0, err != nil && cost != math.MaxInt64: // ParseInt returns MaxInt64 for larger numbers
		return 1
	}
	return cost
}

// costRule returns the first rule that matches the request.
func (z *Zone) costRule(r *http.Request) (*CostRule, error) {
	for i := range z.Costs {
		p := &z.Costs[i]
		if matches, err := anyMatch(p.Matchers, r, false); matches || err != nil {
			return p, err
		}
	}
	return &z.Cost, nil
}
