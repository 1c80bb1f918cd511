package enforce

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// NewPolicy prepares a limit's values for header fields.
func NewPolicy(name string, limit engine.Limit) *Policy {
	quoted := httpfield.String(name)
	p := &Policy{
		Limit:  limit,
		Name:   name,
		item:   quoted + ";r=",
		Legacy: strconv.FormatInt(limit.Amount(), 10),
	}
	p.Field = fmt.Sprintf("%s;q=%d;w=%d", quoted, limit.Amount(), httpfield.Seconds(limit.Window()))
	if limit.Capacity() != limit.Amount() {
		p.Field += fmt.Sprintf(";burst=%d", limit.Capacity())
	}
	return p
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

// NewMeter returns the counters of a limit.
func (p *Policy) NewMeter() meter.Limit {
	if p.Shadow {
		return meter.NewShadow(p.Zone.Name, p.Name)
	}
	return meter.NewLimit(p.Zone.Name, p.Name)
}

// LimitText returns a limit as written in a Caddyfile.
func LimitText(l limiter.Limit) string {
	text := strconv.FormatInt(l.Amount(), 10) + "/" + wording.Duration(l.Window())
	switch l.Algorithm() {
	case limiter.TokenBucket:
		text += " burst " + strconv.FormatInt(l.Capacity(), 10)
	case limiter.Fixed:
		text += " fixed"
	}
	return text
}
