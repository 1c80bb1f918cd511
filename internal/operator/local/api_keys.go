package local

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file serves the API keys in the store to operators.

// storeOfKeys returns the running configuration and the instance whose store has its API keys.
func (r running) storeOfKeys() (runningConfig, *instance.Instance, error) {
	app, inst, err := r.instanceInUse()
	if err == nil && (app.APIKeys == nil || !app.APIKeys.Store) {
		err = operator.Errorf(http.StatusConflict, "the API keys of this configuration are not in its store: leave --store out, or write the word store into the block api_keys")
	}
	return app, inst, err
}

// APIKeys implements operator.Service.
func (r running) APIKeys(context.Context) ([]operator.StoredKey, error) {
	_, inst, err := r.storeOfKeys()
	if err != nil {
		return nil, err
	}
	if inst.Shared.Keys.Load() == nil {
		return nil, keyError(errStoreAway)
	}
	var entries []apikeys.Entry
	for _, key := range inst.Shared.ListKeys() {
		entries = append(entries, key.Entry())
	}
	return DescribeKeys(entries), nil
}

// DescribeKeys describes API keys. The result is never nil, which would be null in JSON.
func DescribeKeys(entries []apikeys.Entry) []operator.StoredKey {
	list := []operator.StoredKey{}
	for _, e := range entries {
		key := operator.StoredKey{Name: e.Name, Tier: e.Tier, ID: e.ID}
		if !e.Expires.IsZero() {
			key.Expires = &e.Expires
		}
		list = append(list, key)
	}
	return list
}

// AddAPIKey implements operator.Service.
func (r running) AddAPIKey(ctx context.Context, line string) error {
	app, inst, err := r.storeOfKeys()
	if err != nil {
		return err
	}
	key, err := apikeys.ParseStored(line)
	if err != nil {
		return operator.Errorf(http.StatusBadRequest, "%v", err)
	}
	if err := inst.Shared.AddKey(ctx, key); err != nil {
		return keyError(err)
	}
	app.Log.Info("an API key was added to the store", zap.String("name", key.Name), zap.String("tier", key.Tier))
	return noteKey(ctx, inst, operator.KeyMade, key.Name, key.Tier)
}

// noteKey notes in the audit what was done to the API keys of a name.
func noteKey(ctx context.Context, inst *instance.Instance, action, name, reason string) error {
	target := operator.Target{Kind: operator.APIKey, Value: name}
	_, err := inst.Audit.WriteSoon(context.WithoutCancel(ctx),
		instance.AuditEntry{By: operator.Admin, Action: action, Target: &target, Reason: reason})
	return noted(err)
}

// ChangeAPIKeys implements operator.Service.
func (r running) ChangeAPIKeys(ctx context.Context, change operator.APIKeyChange) (int, error) {
	if change.Done != "" {
		return 0, r.noteFile(ctx, change)
	}
	app, inst, err := r.storeOfKeys()
	if err != nil {
		return 0, err
	}
	keys := inst.Shared.KeysOf(change.Name, change.ID)
	if len(keys) == 0 {
		return 0, operator.Errorf(http.StatusNotFound, "the store has no API key of %s",
			strings.TrimSpace(change.Name+" "+change.ID))
	}
	action, reason := operator.KeyTier, change.Tier
	switch {
	case change.Tier == "":
		action, reason = operator.KeyRevoked, change.ID
		err = inst.Shared.RevokeKeys(ctx, keys)
	case change.ID != "":
		return 0, operator.Errorf(http.StatusBadRequest, "id: all keys of a name have one tier")
	case apikeys.CheckTier(change.Tier) != nil:
		return 0, operator.Errorf(http.StatusBadRequest, "%v", apikeys.CheckTier(change.Tier))
	default:
		err = inst.Shared.RetierKeys(ctx, keys, change.Tier)
	}
	if err != nil {
		return 0, keyError(err)
	}
	app.Log.Info("API keys in the store were changed", zap.String("name", change.Name), zap.Int("keys", len(keys)),
		zap.Bool("revoked", change.Tier == ""))
	return len(keys), noteKey(ctx, inst, action, change.Name, reason)
}

// noteFile notes in the audit a change that a command has made in a file of keys.
func (r running) noteFile(ctx context.Context, change operator.APIKeyChange) error {
	_, inst, err := r.instanceInUse()
	if err != nil {
		return err
	}
	if !slices.Contains([]string{operator.KeyMade, operator.KeyTier, operator.KeyRevoked}, change.Done) {
		return operator.Errorf(http.StatusBadRequest, "done: got %q: expected %s, %s or %s", change.Done,
			operator.KeyMade, operator.KeyTier, operator.KeyRevoked)
	}
	return noteKey(ctx, inst, change.Done, change.Name, cmp.Or(change.Tier, change.ID))
}

// keyError returns the operator's error for a failed change of keys.
func keyError(err error) error {
	switch {
	case errors.As(err, new(*operator.Error)):
		return err
	case errors.Is(err, storage.ErrNotesFull):
		return operator.Errorf(http.StatusConflict, "the store holds %d bans, allowances and API keys, which is as many as it may; those that were removed in the last week are among them; nothing was changed", storage.MaxNotes)
	case errors.Is(err, storage.ErrUnknownOutcome), errors.Is(err, context.Canceled), errors.Is(err,
		context.DeadlineExceeded):
		return operator.Errorf(http.StatusServiceUnavailable,
			"%v: it isn't known whether that has changed anything; once more does no harm", err)
	}
	return operator.Errorf(http.StatusServiceUnavailable,
		"%v; nothing was changed: try again once the store is back, which caddy rate-limit status says", err)
}
