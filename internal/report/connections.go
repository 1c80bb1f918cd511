package report

import (
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/listener"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/watch"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Connections reports what a listener decides about connections, in a zone of its own.
type Connections struct {
	Config *enforce.Config
	Zone   *enforce.Zone
}

// Report reports a decision about a connection of a network. first reports whether it is the network's first
// refusal in a minute.
func (c *Connections) Report(network string, o listener.Outcome, first bool) {
	c.Zone.Meter.Requests.Inc()
	key := c.Config.Ledger.Key([]byte(network))
	if o == listener.Entered {
		c.Zone.Past.Allow(key, 1)
		for _, p := range c.Zone.BeforeTLS {
			if p != nil {
				p.Meter.Allowed.Inc()
				p.Past.Allow(key, 1)
			}
		}
		return
	}
	by, reason := c.Zone.BeforeTLS[o-listener.Banned], engine.Banned
	if o != listener.Banned {
		reason = engine.OverLimit
		c.Zone.Meter.Declined.Inc()
	}
	by.Meter.Refuse(reason)
	c.Zone.Past.Refuse(key, refusals[reason])
	by.Past.Refuse(key, refusals[reason])
	now := time.Now()
	c.Config.Watchers.Add(now, true, func() watch.Request {
		return c.sampled(network,
			watch.Refusal{Zone: c.Zone.Name, Limit: by.Name, Reason: meter.Outcomes[reason], Retry: limiter.Never})
	})
	log := c.log()
	if log == nil {
		return
	}
	log.Refused.Add(1)
	if first && log.Admits(now) {
		c.Config.Log.Info("connections closed before TLS", zap.String("zone", c.Zone.Name),
			zap.String("limit", by.Name),
			zap.String("outcome", meter.Outcomes[reason]), zap.String("network", identity.MaskedText([]byte(network))))
	}
}

// sampled returns a connection's refusal for the sample.
func (c *Connections) sampled(key string, why watch.Refusal) watch.Request {
	sampled := watch.Request{Counted: []watch.Counted{{Zone: c.Zone.Name, Key: key}}, Address: key, Refusal: &why}
	if network, ok := identity.NetworkOf(key); ok {
		sampled.Network = wording.MaskPrefix(network).String()
		sampled.Country, sampled.ASN = c.Config.Networks.Country(network.Addr()), c.Config.Networks.ASN(network.Addr())
	}
	return sampled
}

// log returns the log of refusals, or nil until the instance is open: a listener doesn't wait for it.
func (c *Connections) log() *instance.RefusalLog {
	log := c.Zone.Log.Load()
	if inst := c.Config.Instance.Load(); log == nil && inst != nil {
		log = inst.Log(c.Zone.Name)
		c.Zone.Log.Store(log)
	}
	return log
}
