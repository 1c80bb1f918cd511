package enforce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/notify"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// This file has a configuration's use of the instance: opening it, waiting for it, giving it up.

// OpenOnceStarted schedules the opening of the store for when the whole configuration runs: from
// then on it can't be rejected.
func (a *Config) OpenOnceStarted(ctx caddy.Context) error {
	app, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("rate_limit: events: %w", err)
	}
	a.ctx, a.events, a.queue = ctx, app.(*caddyevents.App), make(chan notify.Event, maxEvents)
	return a.events.On("started", startedHandler{a})
}

// startedHandler tells a config that it runs.
type startedHandler struct{ config *Config }

// Handle implements caddyevents.Handler.
func (s startedHandler) Handle(context.Context, caddy.Event) error { return s.config.Started() }

// Started opens the store: the whole config runs, so it can't be rejected any more.
func (a *Config) Started() error {
	a.inheritLoad()
	for _, z := range a.AllZones {
		if c := z.Concurrency; c != nil {
			c.Gate.Bound(c.Most)
		}
	}
	if !a.Zones {
		return nil
	}
	h := a.open()
	a.Settle()
	if h == nil {
		return nil
	}
	if err := h.Change(a.Settings, a.Store, a.Region); err != nil {
		a.Log.Error("the rate limiter keeps its former options", zap.Error(err))
	}
	var keys *apikeys.File
	if a.APIKeys != nil {
		keys = a.APIKeys.Keys
	}
	h.Keys.Store(keys)
	h.Rules.Store(a.Rules)
	listener := a.announce
	h.Listener.Store(&listener)
	a.APIKeys.follow(h)
	select {
	case <-h.Engine.Ready():
	case <-time.After(instance.ReadyTimeout):
	}
	h.Names.CheckSecret(a.Log)
	h.WarnOfChangedLimits(a.kindsOfLimits(), a.Log)
	a.noteReload(h)
	return nil
}

// noteReload writes an audit entry when the configuration replaces another one. If that fails,
// Caddy's own log still has the reload.
func (a *Config) noteReload(h *instance.Instance) {
	reload := h.Starts.Add(1) > 1
	instance.Each(func(other *instance.Instance) { reload = reload || other != h })
	if !reload {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), instance.StatsTimeout)
	defer cancel()
	if err := h.Audit.Write(ctx, instance.AuditEntry{By: "config", Action: "reload"}); err != nil {
		a.Log.Debug("the reload could not be noted in the audit", zap.Error(err))
	}
}

// Start begins to report API keys, and to watch the rules file if any handler uses it.
func (a *Config) Start() {
	a.APIKeys.count()
	if a.Used {
		a.WatchRules()
		a.begin()
	}
}

// Stop undoes Start.
func (a *Config) Stop() {
	if a.unwatch != nil {
		a.unwatch()
	}
	if a.stop != nil {
		a.stop()
	}
}

// refusals returns the log of a zone's refusals.
func (a *Config) refusals(zone string) *instance.RefusalLog {
	if a.Zones {
		if h := a.Use(); h != nil {
			return h.Log(zone)
		}
	}
	return &instance.RefusalLog{Zone: zone}
}

// opened runs before any request uses the instance.
func (a *Config) opened(h *instance.Instance) {
	if a.Settings.Address != "" {
		a.Stated.Begin(&h.Shared)
	}
}

// closing runs before the instance is given up. The instance is nil if it was never used.
func (a *Config) closing(h *instance.Instance) {
	a.Stated.End()
	if h != nil {
		h.Shared.Follow(a, nil)
	}
}

// Cleanup gives up the instance. The last configuration that does so closes it, which gives back
// unspent units.
func (a *Config) Cleanup() error {
	if a.Running != nil {
		defer a.Settle()
	}
	running.CompareAndSwap(a, nil)
	a.Watchers.Close()
	first, err := a.release()
	if first {
		err = errors.Join(err, a.closeBlockLists(), a.releaseWebhooks(), a.Networks.Release())
	}
	if first && a.Ledger != nil {
		err = errors.Join(err, instance.CloseLedger(a.Settings))
	}
	return err
}

// kindsOfLimits returns the kinds of limits of all handlers.
func (a *Config) kindsOfLimits() map[instance.ZoneTier]instance.LimitKinds {
	all := make(map[instance.ZoneTier]instance.LimitKinds)
	for _, z := range a.AllZones {
		for _, set := range z.SetsByTier(a.Tiers) {
			z.addKinds(all, set)
		}
	}
	return all
}

// addKinds adds the kinds of a set.
func (z *Zone) addKinds(to map[instance.ZoneTier]instance.LimitKinds, set TierSet) {
	of, nth := instance.ZoneTier{Zone: z.Name, Tier: set.Tier}, make(map[string]int)
	if to[of] == nil {
		to[of] = make(instance.LimitKinds)
	}
	for _, p := range slices.Concat(set.Set.Policies, set.Set.Shadows) {
		kind := p.Kind
		if nth[kind]++; nth[kind] > 1 {
			kind = fmt.Sprintf("%s (%d)", kind, nth[kind])
		}
		to[of][kind] = to[of][kind] || !p.Shadow
	}
}

// punish records an offense of a client.
func (a *Config) punish(client *engine.Client, o reputation.Offense) {
	if h := a.Use(); h != nil {
		h.Engine.Punish(client, o)
	}
}
