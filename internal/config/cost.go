package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/settle"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/routing"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// NewCostRule returns the rule for a cost.
func NewCostRule(cost string) (enforce.CostRule, error) {
	if cost == "" {
		return enforce.CostRule{Fixed: 1}, nil
	}
	if len(routing.PlaceholderNames(cost)) > 0 {
		return enforce.CostRule{From: cost}, routing.CheckPlaceholders(cost)
	}
	fixed, err := strconv.ParseInt(cost, 10, 64)
	if err != nil || fixed < 0 {
		return enforce.CostRule{}, fmt.Errorf("must be a whole number from 0, or a placeholder that holds one, got %q",
			cost)
	}
	return enforce.CostRule{Fixed: fixed}, nil
}

// compileCost compiles the costs of requests.
func (z *zoneCompiler) compileCost() (err error) {
	if z.MaxCost < 0 {
		return fmt.Errorf("max_cost: must be at least 1, got %d", z.MaxCost)
	}
	if z.run.Cost, err = NewCostRule(z.Cost); err != nil {
		return fmt.Errorf("cost: %w", err)
	}
	z.run.Costs = make([]enforce.CostRule, len(z.Costs))
	for i := range z.Costs {
		if z.run.Costs[i], err = z.Costs[i].compile(z.ctx); err != nil {
			return fmt.Errorf("costs: %w", err)
		}
	}
	z.settleSpellings()
	z.run.Cost.Filled = z.filled("cost", z.run.Cost.From, emptyCost, fixOfCost)
	for i := range z.run.Costs {
		z.run.Costs[i].Filled = z.filled("cost", z.run.Costs[i].From, emptyCost, fixOfCost)
	}
	for _, p := range append(z.run.Costs, z.run.Cost) {
		if z.MaxCost != 0 && p.Fixed > z.MaxCost {
			return fmt.Errorf("cost: %d is above max_cost, which is %d", p.Fixed, z.MaxCost)
		}
	}
	return nil
}

const (
	emptyCost = "was empty in 1,000 requests, and never had a value, so that each cost 1"
	fixOfCost = "cost 10; or a placeholder that is set here"
)

// settleSpellings makes the matchers of higher costs match all spellings, and those of lower costs
// only the written one.
func (z *zoneCompiler) settleSpellings() {
	for i := range z.run.Costs {
		if z.isDiscount(i) {
			matcher.ForExemption(z.run.Costs[i].Matchers)
			continue
		}
		z.noteSpellings("cost "+z.Costs[i].Cost, z.run.Costs[i].Matchers)
		matcher.ForLimit(z.run.Costs[i].Matchers)
	}
}

// isDiscount reports whether a request would cost more without the nth price.
func (z *zoneCompiler) isDiscount(n int) bool {
	p := &z.run.Costs[n]
	if p.From != "" {
		return false
	}
	return p.Fixed < z.run.Cost.Fixed ||
		slices.ContainsFunc(z.run.Costs[n+1:], func(later enforce.CostRule) bool { return p.Fixed < later.Fixed })
}

func (c *Cost) compile(ctx caddy.Context) (enforce.CostRule, error) {
	p, err := c.rule()
	if err != nil {
		return enforce.CostRule{}, err
	}
	p.Matchers, err = loadMatchers(ctx, c)
	return p, err
}

// rule checks the cost and returns its rule, without its matchers.
func (c *Cost) rule() (enforce.CostRule, error) {
	if c.Cost == "" {
		return enforce.CostRule{}, errors.New("a cost is missing; give it, or leave out what it is for")
	}
	p, err := NewCostRule(c.Cost)
	if err != nil {
		return enforce.CostRule{}, err
	}
	return p, matcher.CheckSets(c.MatcherSetsRaw)
}

// Count selects the requests of a zone that use up units, by their answers. The status that counts
// is the one that a later handler or an upstream writes, or that of the error that a handler
// returns, such as the 401 of `basic_auth`.
type Count struct {
	// The statuses with which a request uses up units, from 200 to 599, or only their first digit:
	// 4 stands for 400 to 499. A request that is answered with another status uses up nothing.
	// Required unless `when` is given.
	Status []int `json:"status,omitempty"`

	// Other answers with which a request uses up units: for software that answers right and wrong
	// passwords with the same status, but different header fields.
	When []Answer `json:"when,omitempty"`

	// Take a request's units when it arrives, and give them back if its status doesn't count. So
	// the limit is never exceeded, however many requests arrive at once, but a client may have no
	// more requests in flight than it has units left. A request whose client disconnects before the
	// answer uses up its units, and so does one in flight when Caddy is stopped. Without this
	// option, a request passes if its units are free, and is charged when the status is known: the
	// requests in flight may exceed the limit.
	Hold bool `json:"hold,omitempty"`

	// With `hold`, read the body of a request before it takes units, up to this many bytes, at most
	// 1048576, so that slow clients hold no units while they send. A request with a longer body is
	// answered with 413, and one with an unreadable body with 400; neither uses up anything. The
	// bodies of all requests together take at most 64 MiB; then the network that holds most loses
	// its oldest one, which is answered with 503. 65536 is enough for a login form. Default: the
	// body isn't read.
	ReadBody int64 `json:"read_body,omitempty"`
}

// check returns an error if the option is invalid.
func (c *Count) check() error {
	if len(c.Status) == 0 && len(c.When) == 0 {
		return errors.New("status: one is missing: write 401")
	}
	if err := c.checkReadBody(); err != nil {
		return err
	}
	for i := range c.When {
		if err := c.When[i].check(); err != nil {
			return fmt.Errorf("when: %w", err)
		}
	}
	return checkStatuses(c.Status)
}

// checkStatuses returns an error about a status that is invalid or repeated.
func checkStatuses(statuses []int) error {
	for i, status := range statuses {
		if (status < 2 || status > 5) && (status < 200 || status > 599) {
			return fmt.Errorf("status: must be from 200 to 599, or 2 to 5 for all that begin with it, got %d", status)
		}
		for j, other := range statuses {
			if i > j && status == other {
				return fmt.Errorf("status: %s is given twice: leave one out", settle.StatusText(status))
			}
			if i != j && status/100 == other {
				return fmt.Errorf("status: %d is among %s: leave one out", status, settle.StatusText(other))
			}
		}
	}
	return nil
}

func (c *Count) checkReadBody() error {
	switch {
	case c.ReadBody < 0 || c.ReadBody > enforce.MaxReadBody:
		return fmt.Errorf("read_body: must be from 1 to %d bytes, got %d", enforce.MaxReadBody, c.ReadBody)
	case c.ReadBody > 0 && !c.Hold:
		return fmt.Errorf(
			"read_body is for hold, because nothing is held without it: write count status %v hold read_body", c)
	}
	return nil
}

// String returns the statuses as in a Caddyfile.
func (c *Count) String() string { return c.Rule().String() }

// Rule returns the compiled option, or nil if there is none.
func (c *Count) Rule() *settle.Count {
	if c == nil {
		return nil
	}
	rule := &settle.Count{Status: c.Status, Hold: c.Hold, ReadBody: c.ReadBody}
	for i := range c.When {
		rule.When = append(rule.When, c.When[i].rule())
	}
	return rule
}

// compileCount compiles the selection of requests that use up units.
func (z *zoneCompiler) compileCount() error {
	if z.Count == nil {
		return nil
	}
	if err := z.Count.check(); err != nil {
		return fmt.Errorf("count: %w", err)
	}
	if z.run.DeniesAll {
		return errors.New("count: the zone admits nothing, so no request gets an answer that could count: write a limit, or leave out count")
	}
	z.run.Counting = engine.Afterwards
	z.run.Count = z.Count.Rule()
	if z.Count.Hold {
		z.run.Counting = engine.Held
	}
	return nil
}

// parseStatus parses a status such as 401, or a class of them such as 4xx.
func parseStatus(word string) (status int, ok bool) {
	if class, isClass := strings.CutSuffix(strings.ToLower(word), "xx"); isClass && len(class) == 1 {
		word = class
	} else if len(word) != 3 {
		return 0, false
	}
	status, err := strconv.Atoi(word)
	return status, err == nil && (status >= 2 && status <= 5 || status >= 200 && status <= 599)
}

// countRules are the syntax of `count`. Several lines add up.
func (z *Zone) countRules() grammar.Rules {
	const hold = " [hold [read_body [<size>]]]"
	c, reads := new(Count), false
	add := func() error {
		if reads {
			c.ReadBody = cmp.Or(c.ReadBody, enforce.DefaultReadBody)
		}
		return z.addCount(c)
	}
	status := func(word string) error {
		status, ok := parseStatus(word)
		if !ok {
			return fmt.Errorf("must be from 200 to 599, or a class from 2xx to 5xx, got %q", word)
		}
		c.Status = append(c.Status, status)
		return nil
	}
	answer := func(words []string) (int, error) {
		a, err := parseAnswer(words)
		c.When = append(c.When, a)
		return len(words), err
	}
	return grammar.Rules{
		grammar.Line("count status <status...>"+hold, status, &c.Hold, &reads, bodySize(&c.ReadBody)).Repeats().Then(add),
		grammar.Line("count when <answer...>"+hold, answer, &c.Hold, &reads, bodySize(&c.ReadBody)).Repeats().Then(add),
	}
}

// addCount adds a line of `count`.
func (z *Zone) addCount(line *Count) error {
	if z.Count == nil {
		z.Count = line
		return line.check()
	}
	if len(z.Count.Status) > 0 && len(line.Status) > 0 {
		return fmt.Errorf("status is given already: write one line, such as count status %v",
			&Count{Status: append(slices.Clone(z.Count.Status), line.Status...)})
	}
	z.Count.Status = append(z.Count.Status, line.Status...)
	z.Count.When = append(z.Count.When, line.When...)
	z.Count.Hold = z.Count.Hold || line.Hold
	z.Count.ReadBody = cmp.Or(line.ReadBody, z.Count.ReadBody)
	return z.Count.check()
}

// bodySize returns the function for a size of bodies.
func bodySize(field *int64) func(string) error {
	return func(word string) error {
		size, err := humanize.ParseBytes(word)
		if err != nil || size == 0 || size > enforce.MaxReadBody {
			return fmt.Errorf("must be a size from 1B to 1MiB, got %q", word)
		}
		*field = int64(size)
		return nil
	}
}
