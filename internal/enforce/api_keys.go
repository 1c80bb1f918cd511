package enforce

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/meter"
)

// This file finds the API keys in force: those of the file, and those in the store.

// shared returns the API keys in the store. It returns nil if the configuration has none there, or
// if the store has not been read yet.
func (k *APIKeys) shared() *apikeys.Set {
	if h := k.of.Instance.Load(); h != nil && k.Store {
		return h.Shared.Keys.Load()
	}
	return nil
}

// find returns the client of a key in force, or nil. A key in the store is unknown if its tier
// isn't in this configuration.
func (k *APIKeys) find(ctx context.Context, key string, now time.Time) *apikeys.Client {
	if client := k.Keys.Keys().Find(key, now); client != nil {
		return client
	}
	if h := k.of.Instance.Load(); h != nil && k.Store {
		h.AwaitStore(ctx)
	}
	client := k.shared().Find(key, now)
	if client == nil || !k.of.hasTier(client.Tier) {
		return nil
	}
	return client
}

// TierOf returns the tier of a client's keys in force, or "" if it has none.
func (k *APIKeys) TierOf(client string, now time.Time) string {
	if k == nil {
		return ""
	}
	if tier := k.Keys.Keys().TierOf(client, now); tier != "" {
		return tier
	}
	return k.shared().TierOf(client, now)
}

// denyUnknown returns the denial of a request with an unknown key. Until the keys in the store have
// been read, any key may be one of them.
func (k *APIKeys) denyUnknown() *Denial {
	if k.Store && k.shared() == nil {
		return keysAway
	}
	return unknownKey
}

// follow updates the metric of keys in force when the keys in the store change.
func (k *APIKeys) follow(h *instance.Instance) {
	if k != nil && k.Store {
		h.Shared.Follow(k.of, k.Meter)
		k.Meter()
	}
}

// Meter sets the metric of the number of keys in force.
func (k *APIKeys) Meter() {
	now := time.Now()
	counts := k.Keys.Keys().Tiers(now)
	for tier, n := range k.shared().Tiers(now) {
		if k.of.hasTier(tier) {
			counts[tier] += n
		}
	}
	meter.SetAPIKeys(counts, k.of.Tiers)
}

// Open reads the file of API keys, if there is one, for a config with the tiers.
func (k *APIKeys) Open(path string, of *Config) (err error) {
	k.of = of
	k.Keys, err = apikeys.Open(path, of.Tiers, k.changed)
	return err
}

// count sets the metrics of the keys.
func (k *APIKeys) count() {
	if k == nil {
		meter.SetAPIKeys(nil, nil)
		return
	}
	if k.Keys.Keys() == nil && !k.Store {
		k.of.Log.Warn("there is no file of API keys yet; until there is, all keys are unknown", zap.String("file", k.Keys.Path()))
	}
	k.Meter()
}

// changed handles a new version of the file of keys.
func (k *APIKeys) changed(set *apikeys.Set, err error) {
	if err != nil {
		k.of.Log.Error("the file of API keys has changed and can't be used; the keys that were in force are, also those revoked since, until it is put right", zap.Error(err))
		return
	}
	k.of.Log.Info("the file of API keys was read again", zap.Any("keys", set.Tiers(time.Now())))
	k.Meter()
}
