package tally

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file has the API keys in the store, as operators and requests see them.

// storeOfKeys returns the instance whose store has the API keys of the configuration that runs.
func storeOfKeys() (*shared, *instance.Instance, error) {
	app, h, err := instanceInUse()
	if err == nil && (app.APIKeys == nil || !app.APIKeys.Store) {
		err = operator.Errorf(http.StatusConflict, "the API keys of this configuration are not in its store: leave --store out, or write the word store into the block api_keys")
	}
	return app, h, err
}

// APIKeys implements operator.Service.
func (running) APIKeys(context.Context) ([]operator.StoredKey, error) {
	_, h, err := storeOfKeys()
	if err != nil {
		return nil, err
	}
	if h.Shared.Keys.Load() == nil {
		return nil, keyError(errStoreAway)
	}
	list := []operator.StoredKey{}
	for _, key := range h.Shared.ListKeys() {
		e := key.Entry()
		told := operator.StoredKey{Name: e.Name, Tier: e.Tier, ID: e.ID}
		if !e.Expires.IsZero() {
			told.Expires = &e.Expires
		}
		list = append(list, told)
	}
	return list, nil
}

// AddAPIKey implements operator.Service.
func (running) AddAPIKey(ctx context.Context, line string) error {
	app, h, err := storeOfKeys()
	if err != nil {
		return err
	}
	key, err := apikeys.ParseStored(line)
	if err != nil {
		return operator.Errorf(http.StatusBadRequest, "%v", err)
	}
	if err := h.AddAPIKey(ctx, key); err != nil {
		return keyError(err)
	}
	app.log.Info("an API key was added to the store", zap.String("name", key.Name), zap.String("tier", key.Tier))
	return nil
}

// ChangeAPIKeys implements operator.Service.
func (running) ChangeAPIKeys(ctx context.Context, change operator.APIKeyChange) (int, error) {
	app, h, err := storeOfKeys()
	if err != nil {
		return 0, err
	}
	keys := h.Shared.KeysOf(change.Name, change.ID)
	if len(keys) == 0 {
		return 0, operator.Errorf(http.StatusNotFound, "the store has no API key of %s", strings.TrimSpace(change.Name+" "+change.ID))
	}
	switch {
	case change.Tier == "":
		err = h.RevokeAPIKeys(ctx, keys)
	case change.ID != "":
		return 0, operator.Errorf(http.StatusBadRequest, "id: all keys of a name have one tier")
	case apikeys.CheckTier(change.Tier) != nil:
		return 0, operator.Errorf(http.StatusBadRequest, "%v", apikeys.CheckTier(change.Tier))
	default:
		err = h.RetierAPIKeys(ctx, keys, change.Tier)
	}
	if err != nil {
		return 0, keyError(err)
	}
	app.log.Info("API keys in the store were changed", zap.String("name", change.Name), zap.Int("keys", len(keys)), zap.Bool("revoked", change.Tier == ""))
	return len(keys), nil
}

// keyError returns the error that an operator gets when keys could not be changed.
func keyError(err error) error {
	switch {
	case errors.As(err, new(*operator.Error)):
		return err
	case errors.Is(err, storage.ErrNotesFull):
		return operator.Errorf(http.StatusConflict, "the store holds %d bans, allowances and API keys, which is as many as it may; those that were removed in the last week are among them; nothing was changed", storage.MaxNotes)
	case errors.Is(err, storage.ErrUnknownOutcome), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return operator.Errorf(http.StatusServiceUnavailable, "%v: it isn't known whether that has changed anything; once more does no harm", err)
	}
	return operator.Errorf(http.StatusServiceUnavailable, "%v; nothing was changed: try again once the store is back, which caddy rate-limit status says", err)
}

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
