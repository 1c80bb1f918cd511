package enforce

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file provides the counters of a handler, which package report counts with.

// ProvisionHistory makes the history count the requests, the zones and the limits.
func (h *Handler) ProvisionHistory(caddy.Context) error {
	h.Requests.Past = h.Config.Ledger.Meter(history.Requests)
	for _, z := range h.Zones {
		z.Requests = h.Requests.Past
		z.Past = h.Config.Ledger.Meter(storage.Series{Zone: z.Name})
		for _, set := range z.Sets() {
			for _, p := range set.All() {
				p.Past = h.Config.Ledger.Meter(storage.Series{Zone: z.Name, Limit: p.Name})
			}
		}
	}
	return nil
}

// Requests counts the requests of a handler, each once: what zones decide about them is counted by
// zone.
type Requests struct {
	meter.Requests
	Past *history.Meter // nil if there is no history
}

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
			z.Concurrency.Policy.Meter = z.Concurrency.Policy.newMeter()
		}
	}
	h.None, h.RuleMeter = meter.NewZone("false"), meter.NewRules()
	return nil
}

// provisionMeters makes the counters of a zone's limits, and reports those that are enforced.
func (h *Handler) provisionMeters(z *Zone, set *LimitSet) {
	for _, p := range set.All() {
		p.Meter = p.newMeter()
	}
	for _, p := range set.Policies {
		config := meter.Config{Zone: z.Name, Amount: p.Legacy, Window: p.Window().String(),
			IPv4: strconv.Itoa(z.IPv4Prefix), IPv6: strconv.Itoa(z.IPv6Prefix)}
		config.Use()
		h.reported = append(h.reported, config)
	}
}

// Cleanup undoes ProvisionMetrics.
func (h *Handler) Cleanup() {
	if h.ends != nil {
		h.ends()
	}
	for _, config := range h.reported {
		config.Release()
	}
}
