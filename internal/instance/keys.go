package instance

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/atrest"
	"github.com/caddy-tally/caddy-tally/identity/epoch"
	"github.com/caddy-tally/caddy-tally/identity/reference"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/stores"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// keepKeys writes the files with keys again that were removed while they are in use.
// Otherwise whoever opens the store next would make other keys, and count every client
// from 0. If the folder of a secret that the operator has named is gone, that is left alone:
// it may be a disk that is not there at the moment.
func (h *Instance) keepKeys() error {
	secret, s := h.Secret.Load(), h.Settings
	if secret == nil {
		return nil
	}
	var errs []error
	if isOurs := filepath.Dir(s.Secret) == filepath.Dir(s.Epochs); s.Secret != "" && (isOurs || isMissing(s.Secret)) {
		errs = append(errs, keepFile(s.Secret, secret.Keep))
	}
	switch {
	case s.Epochs != "":
		errs = append(errs, keepFile(s.Epochs, func(string) error { return h.Epochs.Keep(h.Lasting()) }))
	case s.Address != "" && !h.isCutOff():
		errs = append(errs, h.Epochs.Keep(h.Lasting()))
	}
	return errors.Join(errs...)
}

// keepFile has keys written again, and warns if that was necessary.
func keepFile(path string, keep func(path string) error) error {
	removed := isMissing(path)
	if err := keep(path); err != nil {
		return err
	}
	if removed && !isMissing(path) {
		caddyconf.Logger().Warn("keys were removed while they are in use; they are written again, because without them everything would be counted from 0", zap.String("path", path))
	}
	return nil
}

// keepKeysOfOthers has the instances of this process that use the same files write
// again what was removed, before this one opens them.
func (h *Instance) keepKeysOfOthers() {
	Each(func(other *Instance) {
		if other == h || other.Settings.Secret != h.Settings.Secret && other.Settings.Epochs != h.Settings.Epochs {
			return
		}
		if err := other.keepKeys(); err != nil {
			caddyconf.Logger().Error("keys that were removed could not be written again", zap.Error(WithRemedy(err)))
		}
	})
}

// isMissing reports whether nothing is at a path, in a folder that is there.
func isMissing(path string) bool {
	_, err := os.Lstat(path)
	_, noFolder := os.Stat(filepath.Dir(path))
	return errors.Is(err, fs.ErrNotExist) && noFolder == nil
}

// findKeys notes where the keys are that names at rest are made under. A secret that an option
// names comes before that of a store.
func (h *Instance) findKeys(in stores.Store) {
	if h.Settings.Address != "" {
		h.Epochs = epoch.InVault(vaultOf{h}, h.Secret.Load)
		return
	}
	keyed, ok := in.(stores.Keyed)
	if !ok {
		h.Epochs = epoch.In(h.Settings.Epochs)
		return
	}
	secret, epochs := keyed.Keys()
	h.Epochs = epochs
	if h.Settings.Secret == "" {
		h.Secret.Store(secret)
	}
}

// openSecret reads the secret, once: hashes must not change under a running engine. When
// the store is opened again, keys that were removed since are written again.
func (h *Instance) openSecret(path string) error {
	if h.Secret.Load() != nil {
		return h.keepKeys()
	}
	h.keepKeysOfOthers()
	secret, err := identity.OpenSecret(path)
	if err != nil {
		return err
	}
	h.Secret.Store(secret)
	return nil
}

// AwaitSecret returns the secret, or nil if it can't be had. It waits for it up to
// ReadyTimeout after the instance was made: a disk that hangs holds up no request
// that comes later.
func (h *Instance) AwaitSecret(ctx context.Context) *identity.Secret {
	if secret := h.Secret.Load(); secret != nil {
		return secret
	}
	if left := ReadyTimeout - time.Since(h.begun); left > 0 {
		select {
		case <-h.Engine.Ready():
		case <-time.After(left):
		case <-ctx.Done():
		}
	}
	return h.Secret.Load()
}

// Name implements engine.Options.Name.
func (h *Instance) Name(id storage.LimitID, key string, retention time.Duration, now int64) (engine.Name, error) {
	hash, err := atrest.HashKey(h.lastingNames(), h.Epochs, uint64(id), key, retention+limiter.MaxSkew, time.Unix(0, now))
	return engine.Name{Key: hash.Current, Former: hash.Former, From: hash.From, Until: hash.Until}, WithRemedy(err)
}

// NameAtOnce implements engine.Options.NameAtOnce.
func (h *Instance) NameAtOnce(id storage.LimitID, key string, retention time.Duration, now int64) (engine.Name, bool) {
	if h.Secret.Load() == nil {
		return engine.Name{}, false
	}
	hash, ok := atrest.HashKeyAtOnce(h.lastingNames(), h.Epochs, uint64(id), key, retention+limiter.MaxSkew, time.Unix(0, now))
	return engine.Name{Key: hash.Current, Former: hash.Former, From: hash.From, Until: hash.Until}, ok
}

// OpaqueName returns an opaque name of a client.
func (h *Instance) OpaqueName(key []byte, verified bool) (name [16]byte, ok bool) {
	if !verified {
		name, err := atrest.OpaqueToday(h.Epochs, key, h.Lasting())
		return name, err == nil
	}
	if h.Secret.Load() == nil {
		return name, false
	}
	return atrest.Opaque(h.lastingNames(), key), true
}

// tagSize is the number of hexadecimal digits of a tag.
const tagSize = 6

// Tag returns the short name by which lists tell clients apart whose addresses are masked: the
// beginning of the client's opaque name, {http.rate_limit.client}. It is the same in all zones and
// on all machines that share a secret. It is "" for a key that isn't one client's, and while the
// secret can't be read.
func (h *Instance) Tag(key string) string {
	name := h.FullTag([]byte(key))
	return name[:min(tagSize, len(name))]
}

// FullTag returns the opaque name that a tag is the beginning of, or "".
func (h *Instance) FullTag(key []byte) string {
	if len(key) == 0 || key[0] == identity.TagEveryone || key[0] == identity.TagUnknown {
		return ""
	}
	name, ok := h.OpaqueName(key, key[0] == identity.TagSession || key[0] == identity.TagAPIKey)
	if !ok {
		return ""
	}
	return hex.EncodeToString(name[:])
}

// Sealer returns what references are made and opened with, or nil while there is no secret.
func (h *Instance) Sealer() *reference.Sealer {
	if s := h.references.Load(); s != nil {
		return s
	}
	secret := h.Secret.Load()
	if secret == nil {
		return nil
	}
	s, err := reference.New(secret)
	if err != nil {
		return nil // not reached: the secret was made alike
	}
	h.references.Store(s)
	return s
}

// Refer returns a new reference of a refusal, or "" if it can't be made. key is the text of what
// was counted by in limit, or of the client's record if limit is nil; "" if nothing was.
func (h *Instance) Refer(content reference.Refusal, limit *engine.Limit, key string) string {
	sealer := h.Sealer()
	if sealer == nil {
		return ""
	}
	if key != "" {
		name, err := h.Engine.NameOf(limit, key)
		if err != nil {
			return ""
		}
		content.Name = name.Key
	}
	return sealer.Seal(content)
}

// Machines that share a store have the keys of epochs in it, sealed under the secret.

// shareKeys agrees with the other machines on the keys in a store that was just opened, and adds
// those in use that it lacks. If that fails, the store is closed: with other keys than all others,
// this machine would count every client from 0.
func (h *Instance) shareKeys(store storage.Store) error {
	if h.Settings.Address == "" {
		return nil
	}
	err := h.agree()
	if err == nil {
		err = h.Epochs.Keep(h.Lasting())
	}
	if err != nil {
		_ = store.Close() // the first error says more
	}
	return err
}

// agree learns the key that all machines name verified clients under. Another key than before means
// that the store has lost everything, and that another machine was there first.
func (h *Instance) agree() error {
	own := h.Secret.Load().Key()
	if agreed := h.agreed.Load(); agreed != nil {
		own = agreed.key
	}
	key, err := h.Epochs.Agree(own)
	if errors.Is(err, epoch.ErrOtherSecret) {
		return fmt.Errorf("secret_file: %q is not the one of the other machines that share the store: copy theirs to this one, or if nobody has it, start anew as docs/operations.md says (%w)", h.Settings.Secret, err)
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
func (h *Instance) lastingNames() identity.Hasher {
	if agreed := h.agreed.Load(); agreed != nil {
		return agreed.hasher
	}
	return h.Secret.Load().Hasher
}

// CheckSecret says whether the secret file has changed since it was read: the next start uses it.
func (h *Instance) CheckSecret(log *zap.Logger) {
	used := h.Secret.Load()
	if used == nil || h.Settings.Secret == "" {
		return
	}
	changed, err := identity.ReadSecret(h.Settings.Secret)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a missing file is written again
		log.Error("secret_file can't be read, and the next start needs it", zap.Error(WithRemedy(err)))
	}
	if err != nil || changed.Equal(used) {
		return
	}
	if h.Settings.Address != "" {
		seals, err := epoch.InVault(vaultOf{h}, func() *identity.Secret { return changed }).Seals()
		if err == nil && seals.Unknown > 0 {
			log.Error("secret_file has changed, and does not fit the store: after its next start this machine could not use the store. Add the former line behind the new one",
				h.Settings.where(), zap.String("secret_file", h.Settings.Secret))
			return
		}
	}
	log.Warn("secret_file has changed; restart Caddy to use it", zap.String("secret_file", h.Settings.Secret))
}

// isCutOff reports whether keys are in a store that can't be used at the moment. They are kept
// there once it can, see shareKeys.
func (h *Instance) isCutOff() bool {
	<-h.made
	return h.Settings.Address != "" && h.Engine.Degraded()
}

// vaultOf is the vault of the store that an instance has opened last.
type vaultOf struct{ h *Instance }

// vaultTimeout bounds how long a look at a vault may take, which is at a start and at midnight.
const vaultTimeout = time.Second

func (v vaultOf) with(f func(ctx context.Context, vault storage.Vault) error) error {
	store := v.h.Store.Load()
	if store == nil {
		return errors.New("the store that has the keys is not open")
	}
	vault, ok := (*store).(storage.Vault)
	if !ok {
		return fmt.Errorf("the store %s can't keep keys for several machines", v.h.Settings.Kind)
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
