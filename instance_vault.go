package tally

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/epoch"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Machines that share a store have the keys of epochs in it, sealed under the secret.

// shareKeys has a store that was just opened keep the keys that are in use. If it fails, the
// store is closed: without the same keys as all others, every client would be counted from 0.
func (h *instance) shareKeys(store storage.Store) error {
	if h.settings.address == "" {
		return nil
	}
	err := h.epochs.Verify()
	if errors.Is(err, epoch.ErrOtherSecret) {
		err = fmt.Errorf("secret_file: %q is not the one of the other machines that share the store: copy theirs to this one (%w)", h.settings.secret, err)
	}
	if err == nil {
		err = h.epochs.Keep(h.lasting())
	}
	if err != nil {
		_ = store.Close() // the first error says more
	}
	return err
}

// isCutOff reports whether keys are in a store that can't be used at the moment. They are kept
// there once it can, see shareKeys.
func (h *instance) isCutOff() bool {
	<-h.made
	return h.settings.address != "" && h.engine.Degraded()
}

// vaultOf is the vault of the store that an instance has opened last.
type vaultOf struct{ h *instance }

// vaultTimeout bounds how long a look at a vault may take, which is at a start and at midnight.
const vaultTimeout = time.Second

func (v vaultOf) with(f func(ctx context.Context, vault storage.Vault) error) error {
	store := v.h.store.Load()
	if store == nil {
		return errors.New("the store that has the keys is not open")
	}
	vault, ok := (*store).(storage.Vault)
	if !ok {
		return fmt.Errorf("the store %s can't keep keys for several machines", v.h.settings.kind)
	}
	ctx, cancel := context.WithTimeout(context.Background(), vaultTimeout)
	defer cancel()
	return f(ctx, vault)
}

// Values implements epoch.Vault.
func (v vaultOf) Values() (values map[string][]byte, err error) {
	err = v.with(func(ctx context.Context, vault storage.Vault) error {
		values, err = vault.Values(ctx)
		return err
	})
	return values, err
}

// AddValue implements epoch.Vault.
func (v vaultOf) AddValue(name string, value []byte) (kept []byte, err error) {
	err = v.with(func(ctx context.Context, vault storage.Vault) error {
		kept, err = vault.AddValue(ctx, name, value)
		return err
	})
	return kept, err
}

// RemoveValue implements epoch.Vault.
func (v vaultOf) RemoveValue(name string) error {
	return v.with(func(ctx context.Context, vault storage.Vault) error { return vault.RemoveValue(ctx, name) })
}

var _ epoch.Vault = vaultOf{}
