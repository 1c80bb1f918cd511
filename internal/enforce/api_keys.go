package enforce

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/meter"
)

// This file finds the API keys in force: those of the file, and those in the store.

// shared returns the API keys in the store. It returns nil if the configuration has none there, or
// if the store has not been read yet.
func (a *APIKeys) shared() *apikeys.Set {
	if inst := a.config.Instance.Load(); inst != nil && a.Store {
		return inst.Shared.Keys.Load()
	}
	return nil
}

// find returns the client of a key in force, or nil. A key in the store is unknown if its tier
// isn't in this configuration.
func (a *APIKeys) find(ctx context.Context, key string, now time.Time) *apikeys.Holder {
	if client := a.Keys.Fresh().Find(key, now); client != nil {
		return client
	}
	if inst := a.config.Instance.Load(); inst != nil && a.Store {
		inst.AwaitStore(ctx)
	}
	client := a.shared().Find(key, now)
	if client == nil || !a.config.hasTier(client.Tier) {
		return nil
	}
	return client
}

// TierOf returns the tier of a client's keys in force, or "" if it has none.
func (a *APIKeys) TierOf(client string, now time.Time) string {
	if a == nil {
		return ""
	}
	if tier := a.Keys.Fresh().TierOf(client, now); tier != "" {
		return tier
	}
	return a.shared().TierOf(client, now)
}

// Names returns the names of all keys.
func (a *APIKeys) Names() map[string]bool {
	names := make(map[string]bool)
	if a != nil {
		a.Keys.Fresh().AddNames(names)
		a.shared().AddNames(names)
	}
	return names
}

// denyUnknown returns the denial of a request with an unknown key. Until the keys in the store have
// been read, any key may be one of them.
func (a *APIKeys) denyUnknown() *answer.Denial {
	if a.Store && a.shared() == nil {
		return keysAway
	}
	return unknownKey
}

// follow updates the metric of keys in force when the keys in the store change.
func (a *APIKeys) follow(inst *instance.Instance) {
	if a != nil && a.Store {
		inst.Shared.Follow(a.config, a.meter)
		a.meter()
	}
}

// meter sets the metric of the number of keys in force.
func (a *APIKeys) meter() {
	now := time.Now()
	counts := a.Keys.Fresh().Tiers(now)
	for tier, n := range a.shared().Tiers(now) {
		if a.config.hasTier(tier) {
			counts[tier] += n
		}
	}
	meter.SetAPIKeys(counts, a.config.Tiers)
}

// Open reads the file of API keys, if there is one, for a config with the tiers.
func (a *APIKeys) Open(path string, cfg *Config) (err error) {
	a.config = cfg
	a.Keys, err = apikeys.Open(path, cfg.Tiers, a.changed)
	return err
}

// count sets the metrics of the keys.
func (a *APIKeys) count() {
	if a == nil {
		meter.SetAPIKeys(nil, nil)
		return
	}
	if a.Keys.Fresh() == nil && !a.Store {
		a.config.Log.Warn("there is no file of API keys yet; until there is, all keys are unknown",
			zap.String("file", a.Keys.Path()))
	}
	a.meter()
}

// changed handles a new version of the file of keys.
func (a *APIKeys) changed(set *apikeys.Set, err error) {
	if err != nil {
		a.config.Log.Error("the file of API keys has changed and can't be used; its former keys stay in force, also those revoked since, until it is mended", zap.Error(err))
		return
	}
	a.config.Log.Info("the file of API keys was read again", zap.Any("keys", set.Tiers(time.Now())))
	a.config.Advice.Drop(a.NoFile)
	a.meter()
}
