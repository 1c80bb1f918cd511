//go:build !linux

package journal

import (
	"fmt"
	"os"
	"runtime"
)

// There is no journal on these platforms: they have no locks of open file descriptions. openFile returns an error, and
// nothing else here is ever called.

// Supported reports whether there can be a journal on this platform.
const Supported = false

func openFile(string) (*os.File, bool, error) {
	return nil, false, fmt.Errorf("%w: %s/%s", ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}

func checkFileSystem(*os.File) error                      { return ErrUnsupported }
func allocate(*os.File, int64) error                      { return ErrUnsupported }
func lock(*os.File, int64, int64) (bool, error)           { return false, ErrUnsupported }
func unlock(*os.File, int64, int64) error                 { return ErrUnsupported }
func lockedByOthers(*os.File, int64, int64) (bool, error) { return false, ErrUnsupported }
