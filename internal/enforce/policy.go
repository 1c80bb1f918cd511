package enforce

import (
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// NewPolicy returns a limit with its values for header fields.
func NewPolicy(name string, limit engine.Limit) *Policy {
	return &Policy{Limit: limit, Item: answer.NewItem(name, limit.Rate)}
}

// StandIn returns a policy that stands for a limit when a zone refuses requests without one.
func StandIn(z *Zone, name string) *Policy {
	p := &Policy{Item: answer.Item{Name: name}}
	p.Join(z, new(LimitSet))
	return p
}

// Join puts the limit into a set of a zone.
func (p *Policy) Join(z *Zone, set *LimitSet) {
	p.Zone, p.Set = z, set
	p.Item.Zone, p.Item.Set, p.Item.Of = z.Name, &set.Set, p
}

// Add adds a limit to the set.
func (s *LimitSet) Add(p *Policy) {
	if p.Shadow {
		s.Shadows = append(s.Shadows, p)
	} else {
		s.Policies = append(s.Policies, p)
	}
}

// JoinFields returns the value of RateLimit-Policy for several limits.
func JoinFields(policies []*Policy) string {
	items := make([]string, len(policies))
	for i, p := range policies {
		items[i] = p.Field
	}
	return strings.Join(items, ", ")
}

// newMeter returns the counters of a limit.
func (p *Policy) newMeter() meter.Limit {
	if p.Shadow {
		return meter.NewShadow(p.Zone.Name, p.Name)
	}
	return meter.NewLimit(p.Zone.Name, p.Name)
}

// LimitText returns a limit as written in a Caddyfile.
func LimitText(l limiter.Limit) string {
	text := strconv.FormatInt(l.Amount(), 10) + "/" + WindowText(l.Window())
	switch l.Algorithm() {
	case limiter.TokenBucket:
		text += " burst " + strconv.FormatInt(l.Capacity(), 10)
	case limiter.Fixed:
		text += " fixed"
	}
	return text
}

// Text returns the limit as written in a Caddyfile, with its penalty.
func (p *Policy) Text() string {
	text := LimitText(p.Rate)
	if p.Penalty == nil {
		return text
	}
	if text += " block " + wording.Duration(p.Penalty.For); p.Penalty.FromLast {
		text += " from the last"
	}
	return text
}

// WindowText returns the window of a limit as written in a Caddyfile.
func WindowText(d time.Duration) string {
	if d == limiter.Month {
		return "month"
	}
	return wording.Duration(d)
}
