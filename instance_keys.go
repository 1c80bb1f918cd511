package tally

import (
	"context"
	"encoding/hex"
	"errors"
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
func (h *instance) keepKeys() error {
	secret, s := h.secret.Load(), h.settings
	if secret == nil {
		return nil
	}
	var errs []error
	if isOurs := filepath.Dir(s.secret) == filepath.Dir(s.epochs); s.secret != "" && (isOurs || isMissing(s.secret)) {
		errs = append(errs, keepFile(s.secret, secret.Keep))
	}
	switch {
	case s.epochs != "":
		errs = append(errs, keepFile(s.epochs, func(string) error { return h.epochs.Keep(h.lasting()) }))
	case s.address != "" && !h.isCutOff():
		errs = append(errs, h.epochs.Keep(h.lasting()))
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
func (h *instance) keepKeysOfOthers() {
	eachInstance(func(other *instance) {
		if other == h || other.settings.secret != h.settings.secret && other.settings.epochs != h.settings.epochs {
			return
		}
		if err := other.keepKeys(); err != nil {
			caddyconf.Logger().Error("keys that were removed could not be written again", zap.Error(withRemedy(err)))
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
func (h *instance) findKeys(in stores.Store) {
	if h.settings.address != "" {
		h.epochs = epoch.InVault(vaultOf{h}, h.secret.Load)
		return
	}
	keyed, ok := in.(stores.Keyed)
	if !ok {
		h.epochs = epoch.In(h.settings.epochs)
		return
	}
	secret, epochs := keyed.Keys()
	h.epochs = epochs
	if h.settings.secret == "" {
		h.secret.Store(secret)
	}
}

// openSecret reads the secret, once: hashes must not change under a running engine. When
// the store is opened again, keys that were removed since are written again.
func (h *instance) openSecret(path string) error {
	if h.secret.Load() != nil {
		return h.keepKeys()
	}
	h.keepKeysOfOthers()
	secret, err := identity.OpenSecret(path)
	if err != nil {
		return err
	}
	h.secret.Store(secret)
	return nil
}

// awaitSecret returns the secret, or nil if it can't be had. It waits for it up to
// readyTimeout after the instance was made: a disk that hangs holds up no request
// that comes later.
func (h *instance) awaitSecret(ctx context.Context) *identity.Secret {
	if secret := h.secret.Load(); secret != nil {
		return secret
	}
	if left := readyTimeout - time.Since(h.begun); left > 0 {
		select {
		case <-h.engine.Ready():
		case <-time.After(left):
		case <-ctx.Done():
		}
	}
	return h.secret.Load()
}

// name implements engine.Options.Name.
func (h *instance) name(id storage.LimitID, key string, retention time.Duration, now int64) (engine.Name, error) {
	hash, err := atrest.HashKey(h.lastingNames(), h.epochs, uint64(id), key, retention+limiter.MaxSkew, time.Unix(0, now))
	return engine.Name{Key: hash.Current, Former: hash.Former, From: hash.From, Until: hash.Until}, withRemedy(err)
}

// nameAtOnce implements engine.Options.NameAtOnce.
func (h *instance) nameAtOnce(id storage.LimitID, key string, retention time.Duration, now int64) (engine.Name, bool) {
	if h.secret.Load() == nil {
		return engine.Name{}, false
	}
	hash, ok := atrest.HashKeyAtOnce(h.lastingNames(), h.epochs, uint64(id), key, retention+limiter.MaxSkew, time.Unix(0, now))
	return engine.Name{Key: hash.Current, Former: hash.Former, From: hash.From, Until: hash.Until}, ok
}

// opaqueName returns an opaque name of a client.
func (h *instance) opaqueName(key []byte, verified bool) (name [16]byte, ok bool) {
	if !verified {
		name, err := atrest.OpaqueToday(h.epochs, key, h.lasting())
		return name, err == nil
	}
	if h.secret.Load() == nil {
		return name, false
	}
	return atrest.Opaque(h.lastingNames(), key), true
}

// tagSize is the number of hexadecimal digits of a tag.
const tagSize = 6

// tag returns the short name by which lists tell clients apart whose addresses are masked: the
// beginning of the client's opaque name, {http.rate_limit.client}. It is the same in all zones and
// on all machines that share a secret. It is "" for a key that isn't one client's, and while the
// secret can't be read.
func (h *instance) tag(key string) string {
	name := h.fullTag([]byte(key))
	return name[:min(tagSize, len(name))]
}

// fullTag returns the opaque name that a tag is the beginning of, or "".
func (h *instance) fullTag(key []byte) string {
	if len(key) == 0 || key[0] == identity.TagEveryone || key[0] == identity.TagUnknown {
		return ""
	}
	name, ok := h.opaqueName(key, key[0] == identity.TagSession || key[0] == identity.TagAPIKey)
	if !ok {
		return ""
	}
	return hex.EncodeToString(name[:])
}

// sealer returns what references are made and opened with, or nil while there is no secret.
func (h *instance) sealer() *reference.Sealer {
	if s := h.references.Load(); s != nil {
		return s
	}
	secret := h.secret.Load()
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

// refer returns a new reference of a refusal, or "" if it can't be made. key is the text of what
// was counted by in limit, or of the client's record if limit is nil; "" if nothing was.
func (h *instance) refer(content reference.Refusal, limit *engine.Limit, key string) string {
	sealer := h.sealer()
	if sealer == nil {
		return ""
	}
	if key != "" {
		name, err := h.engine.NameOf(limit, key)
		if err != nil {
			return ""
		}
		content.Name = name.Key
	}
	return sealer.Seal(content)
}
