package tally

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file has the API keys in a store that machines share. Each is a note there, as an operator's
// statement is: its name is a keyed hash, and its value the line that a file of keys would have,
// sealed. So who reads the store learns neither names nor hashes, and has nothing to search with.

// keyNote begins the line of a note about an API key.
const keyNote = "api-key "

// maxSharedKeys is how many API keys a store may have. The rest of its notes is for bans.
const maxSharedKeys = storage.MaxNotes / 4

// sharedKey is an API key as the store has it.
type sharedKey struct {
	apikeys.Stored
	version int64 // of its note
	older   bool  // it is sealed under an older line of the secret
}

// findKeys returns the names of the notes about the keys that match accepts, and the keys.
func (s *sharedStatements) findKeys(match func(storage.Key, apikeys.Stored) bool) map[storage.Key]sharedKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make(map[storage.Key]sharedKey)
	for name, key := range s.api {
		if match(name, key) {
			found[name] = sharedKey{key, s.notes[name].Version, s.older[name]}
		}
	}
	return found
}

// someOlderKeys returns some of the keys that are sealed under an older line of the secret.
func (s *sharedStatements) someOlderKeys(most int) map[storage.Key]sharedKey {
	n := 0
	return s.findKeys(func(name storage.Key, _ apikeys.Stored) bool {
		if !s.older[name] || n == most {
			return false
		}
		n++
		return true
	})
}

// listKeys returns the keys in the order of their lines.
func (s *sharedStatements) listKeys() (list []apikeys.Stored) {
	for _, key := range s.findKeys(func(storage.Key, apikeys.Stored) bool { return true }) {
		list = append(list, key.Stored)
	}
	slices.SortFunc(list, func(a, b apikeys.Stored) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// keysOf returns the keys of a client, or if id is not "", the one that it tells apart.
func (s *sharedStatements) keysOf(client, id string) map[storage.Key]sharedKey {
	return s.findKeys(func(_ storage.Key, key apikeys.Stored) bool {
		return key.Name == client && (id == "" || key.Entry().ID == id)
	})
}

// nameOfKey returns the name of the note about a key.
func (c *changes) nameOfKey(key apikeys.Stored) storage.Key {
	return c.names.Hash(0, keyNote+string(key.Hash[:]))
}

// addKey adds a key, of a version or a later one.
func (c *changes) addKey(key apikeys.Stored, version int64) {
	c.note(storage.Note{Name: c.nameOfKey(key), Version: version}, keyNote+key.String(), key.Expires)
}

// addAPIKey adds a key to the store.
func (h *instance) addAPIKey(ctx context.Context, key apikeys.Stored) error {
	if len(h.shared.listKeys()) >= maxSharedKeys {
		return operator.Errorf(http.StatusConflict, "the store has %d API keys, which is as many as it may; revoke some: nothing was changed", maxSharedKeys)
	}
	for _, other := range h.shared.keysOf(key.Name, "") {
		if other.Tier != key.Tier {
			return operator.Errorf(http.StatusConflict, "%s has the tier %s already, got %s: a name has one; caddy rate-limit key tier %s %s --store changes it", key.Name, other.Tier, key.Tier, key.Name, key.Tier)
		}
	}
	c, err := h.newChanges()
	if err != nil {
		return err
	}
	c.addKey(key, 0)
	return h.engine.PutNotes(ctx, c.list())
}

// revokeAPIKeys removes keys from the store, whatever others change about them meanwhile.
func (h *instance) revokeAPIKeys(ctx context.Context, keys map[storage.Key]sharedKey) error {
	c, err := h.newChanges()
	if err != nil {
		return err
	}
	for name, key := range keys {
		c.removeOne(name, key.Expires, key.version)
		if key.older { // another machine may be about to seal it again
			c.removeOne(c.nameOfKey(key.Stored), key.Expires, key.version)
		}
	}
	return h.engine.PutNotes(ctx, c.list())
}

// retierAPIKeys gives keys another tier. A key that was revoked meanwhile stays revoked.
func (h *instance) retierAPIKeys(ctx context.Context, keys map[storage.Key]sharedKey, tier string) error {
	c, err := h.newChanges()
	if err != nil {
		return err
	}
	for name, key := range keys {
		if key.older {
			c.removeOne(name, key.Expires, key.version)
		}
		key.Tier = tier
		c.addKey(key.Stored, key.version+1)
	}
	return h.engine.ReplaceNotes(ctx, c.list())
}

// storeOfKeys returns the instance whose store has the API keys of the configuration that runs.
func storeOfKeys() (*App, *instance, error) {
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
	if h.shared.keys.Load() == nil {
		return nil, keyError(errStoreAway)
	}
	list := []operator.StoredKey{}
	for _, key := range h.shared.listKeys() {
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
	if err := h.addAPIKey(ctx, key); err != nil {
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
	keys := h.shared.keysOf(change.Name, change.ID)
	if len(keys) == 0 {
		return 0, operator.Errorf(http.StatusNotFound, "the store has no API key of %s", strings.TrimSpace(change.Name+" "+change.ID))
	}
	switch {
	case change.Tier == "":
		err = h.revokeAPIKeys(ctx, keys)
	case change.ID != "":
		return 0, operator.Errorf(http.StatusBadRequest, "id: all keys of a name have one tier")
	case apikeys.CheckTier(change.Tier) != nil:
		return 0, operator.Errorf(http.StatusBadRequest, "%v", apikeys.CheckTier(change.Tier))
	default:
		err = h.retierAPIKeys(ctx, keys, change.Tier)
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
func (a *App) sharedKeys() *apikeys.Set {
	if h := a.instance.Load(); h != nil && a.APIKeys.Store {
		return h.shared.keys.Load()
	}
	return nil
}

// findKey returns the client that a key in force belongs to, or nil. A key in the store of a tier
// that this configuration doesn't have is unknown.
func (a *App) findKey(ctx context.Context, key string, now time.Time) *apikeys.Client {
	if client := a.APIKeys.keys.Keys().Find(key, now); client != nil {
		return client
	}
	if h := a.instance.Load(); h != nil && a.APIKeys.Store {
		h.awaitStatements(ctx)
	}
	client := a.sharedKeys().Find(key, now)
	if client == nil || a.tier(client.Tier) == nil {
		return nil
	}
	return client
}

// keyTier returns the tier of a client's keys in force, or "" if it has none.
func (a *App) keyTier(client string, now time.Time) string {
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
func (a *App) unknownKey() error {
	if a.APIKeys.Store && a.sharedKeys() == nil {
		return errKeysAway
	}
	return errUnknownKey
}

// followKeys keeps the metric of keys in force when those in the store change.
func (a *App) followKeys(h *instance) {
	if a.APIKeys != nil && a.APIKeys.Store {
		h.shared.follow(a, a.meterKeys)
		a.meterKeys()
	}
}

// meterKeys sets the metric of how many keys are in force.
func (a *App) meterKeys() {
	now := time.Now()
	counts := a.APIKeys.keys.Keys().Tiers(now)
	for tier, n := range a.sharedKeys().Tiers(now) {
		if a.tier(tier) != nil {
			counts[tier] += n
		}
	}
	meter.SetAPIKeys(counts, a.tierNames())
}
