package tally

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/instance"
)

// This file has how a configuration uses the instance: opens it, waits for it, gives it up.

// openOnceStarted has the store opened when the whole configuration runs: from then on
// it can't be rejected any more.
func (a *shared) openOnceStarted(ctx caddy.Context) error {
	app, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("rate_limit: events: %w", err)
	}
	return app.(*caddyevents.App).On("started", startedHandler{a})
}

// startedHandler opens the store of an app.
type startedHandler struct{ app *shared }

// Handle implements caddyevents.Handler.
func (s startedHandler) Handle(context.Context, caddy.Event) error {
	if !s.app.zones {
		return nil
	}
	h := s.app.open()
	s.app.settle()
	if h == nil {
		return nil
	}
	var keys *apikeys.File
	if s.app.APIKeys != nil {
		keys = s.app.APIKeys.keys
	}
	h.Keys.Store(keys)
	h.Rules.Store(s.app.rules)
	select {
	case <-h.Engine.Ready():
	case <-time.After(instance.ReadyTimeout):
	}
	h.CheckSecret(s.app.log)
	h.WarnOfChangedLimits(s.app.kindsOfLimits(), s.app.log)
	s.app.noteReload(h)
	return nil
}

// noteReload notes in the audit that the configuration runs in the place of another one. If
// that isn't possible, Caddy's own log still says it.
func (a *shared) noteReload(h *instance.Instance) {
	reload := h.Starts.Add(1) > 1
	instance.Each(func(other *instance.Instance) { reload = reload || other != h })
	if !reload {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), instance.StatsTimeout)
	defer cancel()
	if err := h.Audit(ctx, instance.AuditEntry{By: "config", Action: "reload"}); err != nil {
		a.log.Debug("the reload could not be noted in the audit", zap.Error(err))
	}
}

// settle notes that it is now known whether the configuration runs.
func (a *shared) settle() { a.runsOnce.Do(func() { close(a.running) }) }

// use returns the instance, and opens it if need be. A request that comes before the
// configuration has completely started waits for that: the store must not be opened for a
// configuration that may still be rejected. If another configuration has the same instance
// open, use doesn't wait. The result is nil after Cleanup if the instance was never used.
func (a *shared) use() *instance.Instance {
	if h := a.instance.Load(); h != nil {
		return h
	}
	if !a.isShared() {
		select {
		case <-a.running:
		case <-time.After(instance.ReadyTimeout):
		}
	}
	return a.open()
}

// isShared reports whether another configuration uses the instance.
func (a *shared) isShared() bool {
	return instance.IsInUse(a.settings)
}

// open returns the instance, and starts it if this configuration has none yet. It is nil
// after Cleanup, or if it can't be started.
func (a *shared) open() *instance.Instance {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.instance.Load(); h != nil || a.closed {
		return h
	}
	h, err := instance.Acquire(a.settings, a.store, a.region)
	if err != nil {
		a.log.Error("the rate limiter could not be started", zap.Error(err))
		return nil
	}
	if a.settings.Address != "" {
		a.stated.Begin(&h.Shared)
	}
	a.instance.Store(h)
	a.followKeys(h)
	return h
}

// refusals returns the log of a zone's refusals.
func (a *shared) refusals(zone string) *instance.RefusalLog {
	if a.zones {
		if h := a.use(); h != nil {
			return h.Log(zone)
		}
	}
	return &instance.RefusalLog{Zone: zone}
}

// Cleanup gives up the instance. When no configuration uses it any more it is closed, and
// unspent units are given back.
func (a *shared) Cleanup() error {
	if a.running != nil {
		defer a.settle()
	}
	a.watchers.close()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	a.stated.End()
	if h := a.instance.Load(); h != nil {
		h.Shared.Follow(a, nil)
	}
	var errs []error
	if a.instance.Load() != nil {
		errs = append(errs, instance.Release(a.settings))
	}
	if a.ledger != nil {
		errs = append(errs, instance.CloseLedger(a.settings))
	}
	return errors.Join(errs...)
}
