package enforce

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file counts requests for the history.

// ProvisionHistory makes the history count the requests, the zones and the limits.
func (h *Handler) ProvisionHistory(caddy.Context) error {
	if h.App.Ledger == nil {
		return nil
	}
	h.Requests.past = h.App.Ledger.Meter(history.Requests)
	for _, z := range h.Zones {
		z.requests = h.Requests.past
		z.Past = h.App.Ledger.Meter(storage.Series{Zone: z.Name})
		for _, set := range z.Sets() {
			for _, p := range set.All() {
				p.past = h.App.Ledger.Meter(storage.Series{Zone: z.Name, Limit: p.Name})
			}
		}
	}
	return nil
}

// remember counts a decision for the history: once for each zone, and for each limit that passes or
// refuses the request.
func (v *Verdict) remember(d *engine.Decision) {
	ledger := v.Handler.App.Ledger
	if ledger == nil || d.Reason == engine.Abandoned {
		return
	}
	var last *Zone
	var key history.Key
	for i, p := range v.Policies {
		if !d.Allowed && d.Reason != engine.Banned && i != d.Debit {
			continue
		}
		debit := &v.Debits[i]
		if !bytes.Equal(key.Text, debit.Key) {
			key = ledger.Key(debit.Key)
		}
		if p.Zone != last {
			last = p.Zone
			rememberIn(last.Past, key, unitsOf(debit), d)
		}
		rememberIn(p.past, key, unitsOf(debit), d)
	}
}

func rememberIn(m *history.Meter, key history.Key, cost int64, d *engine.Decision) {
	if d.Allowed {
		m.Allow(key, cost)
	} else {
		m.Refuse(key, refusals[d.Reason])
	}
}

// refusals are the reasons of the engine and the handler in the history.
var refusals = [meter.Failed + 1]history.Refusal{engine.Blocked: history.Blocked, engine.Banned: history.Banned}

// Requests counts the requests of a handler, each once: what zones decide about them is counted by
// zone.
type Requests struct {
	meter.Requests
	past *history.Meter // nil if there is no history
}

// RequestVar is the request variable that says whether handlers have let the request in so far.
const RequestVar = "rate_limit.let_in"

// countRequest counts the request when the first handler has decided about it. A request that a later
// handler doesn't let in is no longer let in, and what error routes do about it counts for nothing.
func (v *Verdict) countRequest(err error) {
	m, why := &v.Handler.Requests, v.reason(err)
	letIn, again := v.Vars[RequestVar].(bool)
	if again && (!letIn || why == 0) {
		return
	}
	v.Vars[RequestVar] = why == 0
	if !again {
		m.Received.Inc()
	}
	if why == 0 {
		m.past.Allow(history.Key{}, 1)
		return
	}
	m.NotLetIn(why)
	if again {
		m.past.Retract()
	}
	if meter.IsRefusal(why) {
		m.past.Refuse(history.Key{}, refusals[why])
	}
}

// reason returns why a request isn't let in, or 0.
func (v *Verdict) reason(err error) engine.Reason {
	switch {
	case err == answer.ErrAbandoned:
		return engine.Abandoned
	case err != nil:
		return meter.Failed
	case v.Outcome == Refused || v.Outcome == Challenged:
		return v.Refusal.Reason
	}
	return [...]engine.Reason{Denied: meter.Denied, Postponed: meter.Queued, TooEarly: meter.TooEarly}[v.Outcome]
}

// The next functions count requests for the metrics.

// ProvisionMetrics makes the handler count for the metrics, unless they are off.
func (h *Handler) ProvisionMetrics(ctx caddy.Context) error {
	if !h.Metrics {
		return nil
	}
	if err := meter.Register(ctx.GetMetricsRegistry(), Collectors...); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	h.Requests.Requests = meter.NewRequests()
	for _, z := range h.Zones {
		z.Meter = meter.NewZone(z.Name)
		z.Meter.Request = h.Requests.WouldRefuse
		if z.RefusesNothing || slices.ContainsFunc(z.Sets(), func(s *LimitSet) bool { return len(s.Shadows) > 0 }) {
			z.Meter.HasShadow(z.Name)
		}
		if z.Count != nil || z.Settle != nil {
			z.Meter.Settles(z.Name)
		}
		for _, set := range z.Sets() {
			h.provisionMeters(z, set)
		}
		if z.Concurrency != nil {
			z.Concurrency.Policy.Meter = z.Concurrency.Policy.NewMeter()
		}
	}
	h.None, h.RuleMeter = meter.NewZone("false"), meter.NewRules()
	return nil
}

// provisionMeters makes the counters of a zone's limits, and reports those that are enforced.
func (h *Handler) provisionMeters(z *Zone, set *LimitSet) {
	for _, p := range set.All() {
		p.Meter = p.NewMeter()
	}
	for _, p := range set.Policies {
		config := meter.Config{Zone: z.Name, Amount: p.Legacy, Window: p.Window().String(), IPv4: strconv.Itoa(z.IPv4Prefix), IPv6: strconv.Itoa(z.IPv6Prefix)}
		config.Use()
		h.reported = append(h.reported, config)
	}
}

// Cleanup undoes ProvisionMetrics.
func (h *Handler) Cleanup() error {
	if h.ends != nil {
		h.ends()
	}
	for _, config := range h.reported {
		if err := config.Release(); err != nil {
			return err
		}
	}
	return nil
}
