package report

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/listener"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/watch"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Connections reports what a listener decides about connections, in a zone of its own.
type Connections struct {
	App            *enforce.Config
	Zone           *enforce.Zone
	Ban, Open, New *enforce.Policy
}

// Report reports a decision about a connection of a network.
func (c *Connections) Report(network string, o listener.Outcome) {
	c.Zone.Meter.Requests.Inc()
	var key history.Key
	if c.App.Ledger != nil {
		key = c.App.Ledger.Key([]byte(network))
	}
	by, reason, why := c.Open, engine.OverLimit, history.OverLimit
	switch o {
	case listener.Entered:
		c.Zone.Past.Allow(key, 1)
		for _, p := range c.Zone.BeforeTLS {
			p.Meter.Allowed.Inc()
			p.Past.Allow(key, 1)
		}
		return
	case listener.Banned:
		by, reason, why = c.Ban, engine.Banned, history.Banned
	case listener.TooManyNew:
		by = c.New
	}
	if o != listener.Banned {
		c.Zone.Meter.Declined.Inc()
	}
	by.Meter.Refuse(reason)
	c.Zone.Past.Refuse(key, why)
	by.Past.Refuse(key, why)
	refusal := watch.Refusal{Zone: c.Zone.Name, Limit: by.Name, Key: network, Reason: meter.Outcomes[reason], Retry: limiter.Never}
	now := time.Now()
	c.App.Watchers.Refused(now, func() watch.Refusal { return refusal })
	closedLines.log(c.App.Log, refusal, now)
}

// minuteLines bounds log lines: one about a network in a minute, and linesPerSecond in all.
type minuteLines struct {
	all instance.PerSecond

	mu     sync.Mutex
	minute int64               // guarded by mu
	logged map[string]struct{} // guarded by mu: networks
}

const linesPerSecond = 10

var closedLines minuteLines

// log logs that connections are closed, with the network as operators see it.
func (m *minuteLines) log(log *zap.Logger, r watch.Refusal, now time.Time) {
	m.mu.Lock()
	if minute := now.Unix() / 60; minute != m.minute {
		m.minute, m.logged = minute, make(map[string]struct{})
	}
	_, done := m.logged[r.Key]
	admitted := !done && m.all.Admits(now, linesPerSecond)
	if admitted {
		m.logged[r.Key] = struct{}{}
	}
	m.mu.Unlock()
	if admitted {
		log.Info("connections closed before TLS", m.all.Complete([]zap.Field{
			zap.String("zone", r.Zone), zap.String("limit", r.Limit), zap.String("outcome", r.Reason), zap.String("network", identity.MaskedText([]byte(r.Key))),
		})...)
	}
}
