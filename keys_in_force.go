package tally

import (
	"context"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/meter"
)

// This file has the API keys that are in force: those of the file, and those in the store.

// sharedKeys returns the API keys in the store. It is nil if the configuration has none there, or if
// the store was never read.
func (a *shared) sharedKeys() *apikeys.Set {
	if h := a.instance.Load(); h != nil && a.APIKeys.Store {
		return h.Shared.Keys.Load()
	}
	return nil
}

// findKey returns the client that a key in force belongs to, or nil. A key in the store of a tier
// that this configuration doesn't have is unknown.
func (a *shared) findKey(ctx context.Context, key string, now time.Time) *apikeys.Client {
	if client := a.APIKeys.keys.Keys().Find(key, now); client != nil {
		return client
	}
	if h := a.instance.Load(); h != nil && a.APIKeys.Store {
		h.AwaitStatements(ctx)
	}
	client := a.sharedKeys().Find(key, now)
	if client == nil || !a.hasTier(client.Tier) {
		return nil
	}
	return client
}

// keyTier returns the tier of a client's keys in force, or "" if it has none.
func (a *shared) keyTier(client string, now time.Time) string {
	if a.APIKeys == nil {
		return ""
	}
	if tier := a.APIKeys.keys.Keys().TierOf(client, now); tier != "" {
		return tier
	}
	return a.sharedKeys().TierOf(client, now)
}

// unknownKey returns the error that a request with an unknown key is denied with. While the keys in
// the store were never read, any key may be one of them.
func (a *shared) unknownKey() error {
	if a.APIKeys.Store && a.sharedKeys() == nil {
		return errKeysAway
	}
	return errUnknownKey
}

// followKeys keeps the metric of keys in force when those in the store change.
func (a *shared) followKeys(h *instance.Instance) {
	if a.APIKeys != nil && a.APIKeys.Store {
		h.Shared.Follow(a, a.meterKeys)
		a.meterKeys()
	}
}

// meterKeys sets the metric of how many keys are in force.
func (a *shared) meterKeys() {
	now := time.Now()
	counts := a.APIKeys.keys.Keys().Tiers(now)
	for tier, n := range a.sharedKeys().Tiers(now) {
		if a.hasTier(tier) {
			counts[tier] += n
		}
	}
	meter.SetAPIKeys(counts, a.tiers)
}
