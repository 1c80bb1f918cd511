package tally

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/atrest"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// keepKeys writes the files with the keys of names again that were removed while
// they are in use. Otherwise whoever opens the database next would make other keys,
// and count every client from 0. Where the folder is gone as well, the store finds
// that out.
func (h *instance) keepKeys() error {
	secret := h.secret.Load()
	if secret == nil || h.settings.secret == "" {
		return nil
	}
	var errs []error
	if isMissing(h.settings.secret) {
		if err := secret.Keep(h.settings.secret); err != nil {
			errs = append(errs, withRemedy(err))
		} else {
			warnOfRemoved(h.settings.secret)
		}
	}
	if h.settings.epochs == "" {
		return errors.Join(errs...)
	}
	removed := isMissing(h.settings.epochs)
	if err := h.epochs.Keep(h.lasting()); err != nil {
		errs = append(errs, withRemedy(err))
	} else if removed && !isMissing(h.settings.epochs) {
		warnOfRemoved(h.settings.epochs)
	}
	return errors.Join(errs...)
}

// keepKeysOfOthers has the instances of this process that use the same files write
// again what was removed, before this one opens them.
func (h *instance) keepKeysOfOthers() {
	eachInstance(func(other *instance) {
		if other == h || other.settings.secret != h.settings.secret && other.settings.epochs != h.settings.epochs {
			return
		}
		if err := other.keepKeys(); err != nil {
			logger().Error("keys that were removed could not be written again", zap.Error(err))
		}
	})
}

// isMissing reports whether nothing is at a path, in a folder that is there.
func isMissing(path string) bool {
	_, err := os.Lstat(path)
	_, noFolder := os.Stat(filepath.Dir(path))
	return errors.Is(err, fs.ErrNotExist) && noFolder == nil
}

func warnOfRemoved(path string) {
	logger().Warn("keys were removed while they are in use; they are written again, because without them everything would be counted from 0", zap.String("path", path))
}

// takeKeys uses the keys that a store has. A secret that an option names comes
// first.
func (h *instance) takeKeys(store keyedStore) {
	secret, epochs := store.keys()
	h.epochs = epochs
	if h.settings.secret == "" {
		h.secret.Store(secret)
	}
}

// openSecret reads the secret, once: names must not change under a running
// engine. If the files with the keys that names are made under were removed since,
// as they are with their folder, they are made again: nobody else would find what
// is counted. The file that an option names is the operator's.
func (h *instance) openSecret(path string) error {
	if secret := h.secret.Load(); secret != nil {
		if h.settings.epochs != "" && filepath.Dir(path) == filepath.Dir(h.settings.epochs) {
			return errors.Join(secret.Keep(path), h.epochs.Keep(h.lasting()))
		}
		return h.epochs.Keep(h.lasting())
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
	hash, err := atrest.HashKey(h.secret.Load(), h.epochs, uint64(id), key, retention+limiter.MaxSkew, time.Unix(0, now))
	return engine.Name{Key: hash.Current, Former: hash.Former, From: hash.From, Until: hash.Until}, withRemedy(err)
}

// opaqueName returns an opaque name of a client.
func (h *instance) opaqueName(key []byte, verified bool) (name [16]byte, ok bool) {
	if !verified {
		name, err := atrest.OpaqueToday(h.epochs, key, h.lasting())
		return name, err == nil
	}
	secret := h.secret.Load()
	if secret == nil {
		return name, false
	}
	return atrest.Opaque(secret, key), true
}
