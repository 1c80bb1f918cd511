package tally

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/epoch"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Machines that share a store have the keys of epochs in it, sealed under the secret.

// shareKeys agrees with the other machines on the keys in a store that was just opened, and adds
// those in use that it lacks. If that fails, the store is closed: with other keys than all others,
// this machine would count every client from 0.
func (h *instance) shareKeys(store storage.Store) error {
	if h.settings.address == "" {
		return nil
	}
	err := h.agree()
	if err == nil {
		err = h.epochs.Keep(h.lasting())
	}
	if err != nil {
		_ = store.Close() // the first error says more
	}
	return err
}

// agree learns the key that all machines name verified clients under. Another key than before means
// that the store has lost everything, and that another machine was there first.
func (h *instance) agree() error {
	own := h.secret.Load().Key()
	if agreed := h.agreed.Load(); agreed != nil {
		own = agreed.key
	}
	key, err := h.epochs.Agree(own)
	if errors.Is(err, epoch.ErrOtherSecret) {
		return fmt.Errorf("secret_file: %q is not the one of the other machines that share the store: copy theirs to this one, or if nobody has it, start anew as docs/operations.md says (%w)", h.settings.secret, err)
	}
	if err == nil {
		h.agreed.Store(&agreedKey{key, identity.NewHasher(key)})
	}
	return err
}

// agreedKey is a key that machines have agreed on, and what hashes under it.
type agreedKey struct {
	key    []byte
	hasher identity.Hasher
}

// lastingNames returns the hasher of keys that tell no address. The secret must be known.
func (h *instance) lastingNames() identity.Hasher {
	if agreed := h.agreed.Load(); agreed != nil {
		return agreed.hasher
	}
	return h.secret.Load().Hasher
}

// checkSecret says whether the secret file has changed since it was read: the next start uses it.
func (h *instance) checkSecret(log *zap.Logger) {
	used := h.secret.Load()
	if used == nil || h.settings.secret == "" {
		return
	}
	changed, err := identity.ReadSecret(h.settings.secret)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a missing file is written again
		log.Error("secret_file can't be read, and the next start needs it", zap.Error(withRemedy(err)))
	}
	if err != nil || changed.Equal(used) {
		return
	}
	if h.settings.address != "" {
		seals, err := epoch.InVault(vaultOf{h}, func() *identity.Secret { return changed }).Seals()
		if err == nil && seals.Unknown > 0 {
			log.Error("secret_file has changed, and does not fit the store: after its next start this machine could not use the store. Add the former line behind the new one",
				h.settings.where(), zap.String("secret_file", h.settings.secret))
			return
		}
	}
	log.Warn("secret_file has changed; restart Caddy to use it", zap.String("secret_file", h.settings.secret))
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

// SwapValue implements epoch.Vault.
func (v vaultOf) SwapValue(name string, former, value []byte) (kept []byte, err error) {
	err = v.with(func(ctx context.Context, vault storage.Vault) error {
		kept, err = vault.SwapValue(ctx, name, former, value)
		return err
	})
	return kept, err
}

var _ epoch.Vault = vaultOf{}
