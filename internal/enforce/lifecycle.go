package enforce

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// This file has how a configuration uses the instance: opens it, waits for it, gives it up.

// OpenOnceStarted has the store opened when the whole configuration runs: from then on
// it can't be rejected any more.
func (a *Config) OpenOnceStarted(ctx caddy.Context) error {
	app, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("rate_limit: events: %w", err)
	}
	return app.(*caddyevents.App).On("started", startedHandler{a})
}

// startedHandler tells a config that it runs.
type startedHandler struct{ config *Config }

// Handle implements caddyevents.Handler.
func (s startedHandler) Handle(context.Context, caddy.Event) error { return s.config.Started() }

// Started opens the store: the whole config runs, so it can't be rejected any more.
func (a *Config) Started() error {
	if !a.Zones {
		return nil
	}
	h := a.open()
	a.Settle()
	if h == nil {
		return nil
	}
	var keys *apikeys.File
	if a.APIKeys != nil {
		keys = a.APIKeys.Keys
	}
	h.Keys.Store(keys)
	h.Rules.Store(a.Rules)
	select {
	case <-h.Engine.Ready():
	case <-time.After(instance.ReadyTimeout):
	}
	h.Names.CheckSecret(a.Log)
	h.WarnOfChangedLimits(a.kindsOfLimits(), a.Log)
	a.noteReload(h)
	return nil
}

// noteReload notes in the audit that the configuration runs in the place of another one. If
// that isn't possible, Caddy's own log still says it.
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

// Start begins to report API keys, and to watch the rules file if any handler asks for it.
func (a *Config) Start() {
	a.countKeys()
	if a.Used {
		a.WatchRules()
	}
}

// Stop ends what Start began.
func (a *Config) Stop() {
	if a.unwatchRules != nil {
		a.unwatchRules()
	}
}

// Settle notes that it is now known whether the configuration runs.
func (a *Config) Settle() { a.runsOnce.Do(func() { close(a.Running) }) }

// Use returns the instance, and opens it if need be. A request that comes before the
// configuration has completely started waits for that: the store must not be opened for a
// configuration that may still be rejected. If another configuration has the same instance
// open, use doesn't wait. The result is nil after Cleanup if the instance was never used.
func (a *Config) Use() *instance.Instance {
	if h := a.Instance.Load(); h != nil {
		return h
	}
	if !a.isShared() {
		select {
		case <-a.Running:
		case <-time.After(instance.ReadyTimeout):
		}
	}
	return a.open()
}

// isShared reports whether another configuration uses the instance.
func (a *Config) isShared() bool {
	return instance.IsInUse(a.Settings)
}

// open returns the instance, and starts it if this configuration has none yet. It is nil
// after Cleanup, or if it can't be started.
func (a *Config) open() *instance.Instance {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.Instance.Load(); h != nil || a.closed {
		return h
	}
	h, err := instance.Acquire(a.Settings, a.Store, a.Region)
	if err != nil {
		a.Log.Error("the rate limiter could not be started", zap.Error(err))
		return nil
	}
	if a.Settings.Address != "" {
		a.Stated.Begin(&h.Shared)
	}
	a.Instance.Store(h)
	a.followKeys(h)
	return h
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

// Cleanup gives up the instance. When no configuration uses it any more it is closed, and
// unspent units are given back.
func (a *Config) Cleanup() error {
	if a.Running != nil {
		defer a.Settle()
	}
	a.Watchers.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	a.Stated.End()
	if h := a.Instance.Load(); h != nil {
		h.Shared.Follow(a, nil)
	}
	var errs []error
	if a.Instance.Load() != nil {
		errs = append(errs, instance.Release(a.Settings))
	}
	if a.Ledger != nil {
		errs = append(errs, instance.CloseLedger(a.Settings))
	}
	return errors.Join(errs...)
}

// kindsOfLimits returns the kinds of limits of all handlers.
func (a *Config) kindsOfLimits() map[instance.ZoneTier]instance.LimitKinds {
	all := make(map[instance.ZoneTier]instance.LimitKinds)
	for _, z := range a.AllZones {
		for _, l := range append(slices.Collect(maps.Values(z.Sites)), z.SiteLimits) {
			z.addKinds(all, "", l.Own)
			for tier, set := range l.ByTier {
				z.addKinds(all, tier, set)
			}
		}
	}
	return all
}

// addKinds adds the kinds of a set, which may be nil.
func (z *Zone) addKinds(to map[instance.ZoneTier]instance.LimitKinds, tier string, set *LimitSet) {
	if set == nil {
		return
	}
	of, nth := instance.ZoneTier{Zone: z.Name, Tier: tier}, make(map[string]int)
	if to[of] == nil {
		to[of] = make(instance.LimitKinds)
	}
	for _, p := range slices.Concat(set.Policies, set.Shadows) {
		kind := p.Kind
		if nth[kind]++; nth[kind] > 1 {
			kind = fmt.Sprintf("%s (%d)", kind, nth[kind])
		}
		to[of][kind] = to[of][kind] || !p.Shadow
	}
}

// This file has how a configuration decides about requests and reports violations, also
// about requests that outlive it.

// Decide charges a request to limits, or refuses it. The result is false if there are no
// counts to decide by, because the configuration was rejected.
func (a *Config) decide(ctx context.Context, client *engine.Client, debits []engine.Debit) (d engine.Decision, ok bool) {
	if h := a.Use(); h != nil {
		if d = h.Decide(ctx, client, debits); !d.Degraded || !h.Closing.Load() {
			return d, true
		}
	}
	return a.decideLate(ctx, client, debits)
}

// punish records an offense of a client.
func (a *Config) punish(client *engine.Client, o reputation.Offense) {
	if h := a.Use(); h != nil {
		h.Engine.Punish(client, o)
	}
}

// decideLate decides about a request that has outlived its configuration: when Caddy loads
// another one, it lets the requests under way finish. It borrows the instance, and opens it
// again if no configuration uses it any more. It does not open the instance of a
// configuration that never ran.
func (a *Config) decideLate(ctx context.Context, client *engine.Client, debits []engine.Debit) (d engine.Decision, ok bool) {
	if a.Instance.Load() == nil && !a.isShared() {
		return a.decideElsewhere(ctx, client, debits)
	}
	h, err := instance.Acquire(a.Settings, a.Store, a.Region)
	if err != nil {
		return d, false
	}
	forget(client) // what they know is of another engine
	for i := range debits {
		forget(debits[i].Client)
	}
	d = h.Decide(ctx, client, debits)
	if err := instance.Release(a.Settings); err != nil {
		a.Log.Error("the rate limiter could not be closed", zap.Error(err))
	}
	return d, true
}

// decideElsewhere decides about a request of a configuration that was rejected after it
// had begun to listen. The configuration that runs instead counts it.
func (a *Config) decideElsewhere(ctx context.Context, client *engine.Client, debits []engine.Debit) (d engine.Decision, ok bool) {
	var other *instance.Instance
	instance.Each(func(h *instance.Instance) {
		if other == nil || h.Settings.Store == a.Settings.Store {
			other = h
		}
	})
	if other == nil {
		return d, false
	}
	return other.Decide(ctx, client, debits), true
}

// forget has the engine look up a client again.
func forget(c *engine.Client) {
	if c != nil {
		*c = engine.Client{Key: c.Key}
	}
}
