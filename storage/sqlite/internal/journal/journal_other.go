//go:build !linux || mips || mipsle || (arm && !arm.7)

package journal

import (
	"fmt"
	"os"
	"runtime"
)

// There is no journal on these platforms: either they have no locks of open file descriptions, or their 64-bit atomics
// use locks that other processes don't see. openFile returns an error, and nothing else here is ever called.

// Supported reports whether there can be a journal on this platform.
const Supported = false

func openFile(string) (*os.File, bool, error) {
	return nil, false, fmt.Errorf("%w: %s/%s", ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}

func checkFileSystem(*os.File) error                      { return ErrUnsupported }
func allocate(*os.File, int64) error                      { return ErrUnsupported }
func mapFile(*os.File, header) (*mapping, error)          { return nil, ErrUnsupported }
func (m *mapping) vacate() error                          { return ErrUnsupported }
func (m *mapping) free()                                  {}
func lock(*os.File, int64, int64) (bool, error)           { return false, ErrUnsupported }
func unlock(*os.File, int64, int64) error                 { return ErrUnsupported }
func lockedByOthers(*os.File, int64, int64) (bool, error) { return false, ErrUnsupported }
