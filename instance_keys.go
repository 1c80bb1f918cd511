package tally

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"
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
