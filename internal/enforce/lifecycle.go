package enforce

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
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
func (cfg *Config) OpenOnceStarted(ctx caddy.Context) error {
	app, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("rate_limit: events: %w", err)
	}
	cfg.ctx, cfg.events, cfg.queue = ctx, app.(*caddyevents.App), make(chan notify.Event, maxEvents)
	// A config that is rejected must leave no file, so nothing is opened before all of it runs (decision 4).
	return cfg.events.On("started", startedHandler{cfg})
}

// startedHandler tells a config that it runs.
type startedHandler struct{ config *Config }

// Handle implements caddyevents.Handler.
func (s startedHandler) Handle(context.Context, caddy.Event) error {
	s.config.Started()
	return nil
}

// Started opens the store: the whole config runs, so it can't be rejected any more.
func (cfg *Config) Started() {
	cfg.inheritLoad()
	for _, z := range cfg.AllZones {
		if c := z.Concurrency; c != nil {
			c.Gate.Bound(c.Most)
		}
	}
	if !cfg.Zones {
		return
	}
	inst := cfg.open()
	cfg.Settle()
	if inst == nil {
		return
	}
	if err := inst.Change(cfg.Settings, cfg.Store, cfg.Region); err != nil {
		cfg.Log.Error("the rate limiter keeps its former options", zap.Error(err))
	}
	var keys *apikeys.File
	if cfg.APIKeys != nil {
		keys = cfg.APIKeys.Keys
	}
	inst.Keys.Store(keys)
	inst.Rules.Store(cfg.Rules)
	listener := func(e notify.Event) {
		cfg.locate(&e)
		cfg.announce(e)
	}
	inst.Listener.Store(&listener)
	cfg.APIKeys.follow(inst)
	select {
	case <-inst.Engine.Ready():
	case <-time.After(instance.ReadyTimeout):
	}
	inst.Names.CheckSecret(cfg.Log)
	inst.WarnOfChangedLimits(cfg.kindsOfLimits(), cfg.Log)
	cfg.noteReload(inst)
}

// noteReload writes an audit entry when the configuration replaces another one. If that fails,
// Caddy's own log still has the reload.
func (cfg *Config) noteReload(inst *instance.Instance) {
	reload := inst.Starts.Add(1) > 1
	instance.Each(func(other *instance.Instance) { reload = reload || other != inst })
	if !reload {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), instance.StatsTimeout)
	defer cancel()
	if err := inst.Audit.Write(ctx, instance.AuditEntry{By: "config", Action: "reload"}); err != nil {
		cfg.Log.Debug("the reload could not be noted in the audit", zap.Error(err))
	}
}

// Start begins to report API keys, and to watch the rules file if any handler uses it.
func (cfg *Config) Start() {
	cfg.APIKeys.count()
	if cfg.Used {
		cfg.WatchRules()
		cfg.begin()
	}
}

// Stop undoes Start.
func (cfg *Config) Stop() {
	if cfg.unwatch != nil {
		cfg.unwatch()
	}
	if cfg.stop != nil {
		cfg.stop()
	}
}

// Refusals returns the log of a zone's refusals.
func (cfg *Config) Refusals(zone string) *instance.RefusalLog {
	if cfg.Zones {
		if inst := cfg.Use(); inst != nil {
			return inst.Log(zone)
		}
	}
	return &instance.RefusalLog{Zone: zone}
}

// opened runs before any request uses the instance.
func (cfg *Config) opened(inst *instance.Instance) {
	if cfg.Settings.Address != "" {
		cfg.Stated.Begin(&inst.Shared)
	}
}

// closing runs before the instance is given up. The instance is nil if it was never used.
func (cfg *Config) closing(inst *instance.Instance) {
	cfg.Stated.End()
	if inst != nil {
		inst.Shared.Follow(cfg, nil)
	}
}

// Cleanup gives up the instance. The last configuration that does so closes it, which gives back
// unspent units.
func (cfg *Config) Cleanup() error {
	if cfg.Running != nil {
		defer cfg.Settle()
	}
	running.CompareAndSwap(cfg, nil)
	cfg.Watchers.Close()
	first, err := cfg.release()
	if !first {
		return nil
	}
	for _, list := range cfg.BlockLists {
		list.Release()
	}
	for _, w := range cfg.Webhooks {
		w.Release()
	}
	cfg.Networks.Release()
	if cfg.Ledger != nil {
		instance.CloseLedger(cfg.Settings)
	}
	return err
}

// kindsOfLimits returns the kinds of limits of all handlers.
func (cfg *Config) kindsOfLimits() map[instance.ZoneTier]instance.LimitKinds {
	all := make(map[instance.ZoneTier]instance.LimitKinds)
	for _, z := range cfg.AllZones {
		for _, set := range z.SetsByTier(cfg.Tiers) {
			z.addKinds(all, set)
		}
	}
	return all
}

// addKinds adds the kinds of a set.
func (z *Zone) addKinds(to map[instance.ZoneTier]instance.LimitKinds, set TierSet) {
	tier, nth := instance.ZoneTier{Zone: z.Name, Tier: set.Tier}, make(map[string]int)
	if to[tier] == nil {
		to[tier] = make(instance.LimitKinds)
	}
	for _, p := range slices.Concat(set.Set.Policies, set.Set.Shadows) {
		kind := p.Kind
		if nth[kind]++; nth[kind] > 1 {
			kind = fmt.Sprintf("%s (%d)", kind, nth[kind])
		}
		to[tier][kind] = to[tier][kind] || !p.Shadow
	}
}

// punish records an offense of a client.
func (cfg *Config) punish(client *engine.Client, o reputation.Offense) {
	if inst := cfg.Use(); inst != nil {
		inst.Engine.Punish(client, o)
	}
}

// WritesAccessLogs reports whether the server of a handler that is being provisioned writes
// access logs, at least for some hosts.
func WritesAccessLogs(ctx caddy.Context) bool {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return ok && server.Logs != nil
}
