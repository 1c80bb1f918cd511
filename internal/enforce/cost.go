package enforce

import (
	"math"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/settle"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// CostRule is a cost ready for use.
type CostRule struct {
	Matchers caddyhttp.MatcherSets
	Fixed    int64  // unless From is set
	From     string // placeholders for the cost
	Filled   *Never // a value in them
}

// costOf returns the cost of a request in the zone, whose limits for the request are set: the highest one of the
// values that programs may read.
func (z *Zone) costOf(e *Evaluation, set *LimitSet) (cost int64, err error) {
	if !e.each(&z.CostReads, true, func() bool {
		var one int64
		one, err = z.price(e, set)
		cost = max(cost, one)
		return err == nil
	}) {
		cost = set.smallest()
	}
	if z.MaxCost != 0 {
		cost = min(cost, z.MaxCost)
	}
	return cost, err
}

// price returns the cost by the first rule that matches the request, or by an earlier rule that may match.
func (z *Zone) price(e *Evaluation, set *LimitSet) (cost int64, err error) {
	for i := range z.Costs {
		p := &z.Costs[i]
		matches, unknown, err := e.match(p.Matchers)
		if err != nil {
			return 0, err
		}
		if matches || unknown {
			cost = max(cost, z.costBy(e, p, set))
		}
		if matches {
			return cost, nil
		}
	}
	return max(cost, z.costBy(e, &z.Cost, set)), nil
}

// costBy returns the cost by a rule. If none of its fields is of the body's type, or one can't be read with certainty,
// it is the most that the limits allow.
func (z *Zone) costBy(e *Evaluation, p *CostRule, set *LimitSet) int64 {
	if p.From == "" {
		return p.Fixed
	}
	fields, typed, unsure := 0, 0, false
	text, _ := e.Repl.ReplaceFunc(p.From, func(name string, value any) (any, error) { // returns no error
		if !bodyfield.IsField(name) {
			return value, nil
		}
		one, err := e.field(&e.body, name).One()
		if fields++; err != bodyfield.ErrOtherType {
			typed, unsure = typed+1, unsure || err != nil
		}
		return one, nil
	})
	e.note(p.Filled, strings.TrimSpace(text) != "")
	if unsure || fields > 0 && typed == 0 {
		return set.smallest()
	}
	return z.costIn(text, set)
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
