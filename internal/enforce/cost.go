package enforce

import (
	"math"
	"net/http"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/settle"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// CostRule is a cost ready for use.
type CostRule struct {
	Matchers caddyhttp.MatcherSets
	Fixed    int64  // unless From is set
	From     string // placeholders for the cost
}

// costOf returns the cost of a request in the zone, whose limits for the request are set.
func (z *Zone) costOf(r *http.Request, repl *caddy.Replacer, set *LimitSet) (int64, error) {
	p, err := z.costRule(r)
	if err != nil {
		return 0, err
	}
	cost := p.Fixed
	if p.From != "" {
		cost = z.costIn(repl.ReplaceAll(p.From, ""), set)
	}
	if z.MaxCost != 0 {
		cost = min(cost, z.MaxCost)
	}
	return cost, nil
}

// costIn returns the cost that a placeholder holds: 1 if it is empty. What isn't a whole number costs
// as much as the limits allow, since an upstream may read it as any. In a zone that settles, 0 is an
// estimate like any other: it must not free the request from the limits.
func (z *Zone) costIn(text string, set *LimitSet) int64 {
	cost, ok := settle.ParseUnits(text)
	switch {
	case strings.TrimSpace(text) == "", ok && cost == 0 && z.Settle != nil:
		return 1
	case !ok:
		return set.smallest()
	}
	return cost
}

// smallest returns the most units that a request can use up of all limits of the set, or 1 if there are
// none.
func (s *LimitSet) smallest() int64 {
	least := int64(math.MaxInt64)
	for _, p := range s.All() {
		least = min(least, p.Capacity())
	}
	if least == math.MaxInt64 {
		return 1
	}
	return least
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
