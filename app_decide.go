package tally

import (
	"context"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// This file has how a configuration decides about requests and reports violations, also
// about requests that outlive it.

// decide charges a request to limits, or refuses it. The result is false if there are no
// counts to decide by, because the configuration was rejected.
func (a *shared) decide(ctx context.Context, client *engine.Client, debits []engine.Debit) (d engine.Decision, ok bool) {
	if h := a.use(); h != nil {
		if d = h.Decide(ctx, client, debits); !d.Degraded || !h.Closing.Load() {
			return d, true
		}
	}
	return a.decideLate(ctx, client, debits)
}

// punish records an offense of a client.
func (a *shared) punish(client *engine.Client, o reputation.Offense) {
	if h := a.use(); h != nil {
		h.Engine.Punish(client, o)
	}
}

// decideLate decides about a request that has outlived its configuration: when Caddy loads
// another one, it lets the requests under way finish. It borrows the instance, and opens it
// again if no configuration uses it any more. It does not open the instance of a
// configuration that never ran.
func (a *shared) decideLate(ctx context.Context, client *engine.Client, debits []engine.Debit) (d engine.Decision, ok bool) {
	if a.instance.Load() == nil && !a.isShared() {
		return a.decideElsewhere(ctx, client, debits)
	}
	h, err := instance.Acquire(a.settings, a.store, a.region)
	if err != nil {
		return d, false
	}
	forget(client) // what they know is of another engine
	for i := range debits {
		forget(debits[i].Client)
	}
	d = h.Decide(ctx, client, debits)
	if err := instance.Release(a.settings); err != nil {
		a.log.Error("the rate limiter could not be closed", zap.Error(err))
	}
	return d, true
}

// decideElsewhere decides about a request of a configuration that was rejected after it
// had begun to listen. The configuration that runs instead counts it.
func (a *shared) decideElsewhere(ctx context.Context, client *engine.Client, debits []engine.Debit) (d engine.Decision, ok bool) {
	var other *instance.Instance
	instance.Each(func(h *instance.Instance) {
		if other == nil || h.Settings.Store == a.settings.Store {
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
