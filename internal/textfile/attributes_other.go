//go:build !linux

package textfile

import "errors"

// sameAttributes returns an error: attributes of files are unknown here, so none can be kept.
func sameAttributes(_, _ string) error { return errors.ErrUnsupported }
