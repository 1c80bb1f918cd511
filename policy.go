package tally

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// newPolicy prepares what is written about a limit into header fields.
func newPolicy(name string, limit engine.Limit) *policy {
	quoted := httpfield.String(name)
	p := &policy{
		Limit:  limit,
		name:   name,
		item:   quoted + ";r=",
		legacy: strconv.FormatInt(limit.Amount(), 10),
	}
	p.field = fmt.Sprintf("%s;q=%d;w=%d", quoted, limit.Amount(), httpfield.Seconds(limit.Window()))
	if limit.Capacity() != limit.Amount() {
		p.field += fmt.Sprintf(";burst=%d", limit.Capacity())
	}
	return p
}

// add adds a limit to the set.
func (s *limitSet) add(p *policy) {
	if p.shadow {
		s.shadows = append(s.shadows, p)
	} else {
		s.policies = append(s.policies, p)
	}
}

// joinFields returns the value of RateLimit-Policy for several limits.
func joinFields(policies []*policy) string {
	items := make([]string, len(policies))
	for i, p := range policies {
		items[i] = p.field
	}
	return strings.Join(items, ", ")
}

// newMeter returns the counters of a limit.
func (p *policy) newMeter() meter.Limit {
	if p.shadow {
		return meter.NewShadow(p.zone.Name, p.name)
	}
	return meter.NewLimit(p.zone.Name, p.name)
}
