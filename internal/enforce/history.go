package enforce

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file counts requests for the history.

// ProvisionHistory makes the history count the zones and limits.
func (h *Handler) ProvisionHistory(caddy.Context) error {
	if h.App.Ledger == nil {
		return nil
	}
	for _, z := range h.Zones {
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
func (e *Evaluation) remember(d *engine.Decision) {
	ledger := e.Handler.App.Ledger
	if ledger == nil || d.Reason == engine.Abandoned {
		return
	}
	var last *Zone
	var key history.Key
	for i, p := range e.Policies {
		if !d.Allowed && d.Reason != engine.Banned && i != d.Debit {
			continue
		}
		debit := &e.Debits[i]
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
	switch {
	case d.Allowed:
		m.Allow(key, cost)
	case d.Reason == engine.Banned:
		m.Refuse(key, history.Banned)
	case d.Reason == engine.Blocked:
		m.Refuse(key, history.Blocked)
	default:
		m.Refuse(key, history.OverLimit)
	}
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
	for _, z := range h.Zones {
		z.Meter = meter.NewZone(z.Name)
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
	h.None, h.Statements = meter.NewZone("false"), meter.NewRules()
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
