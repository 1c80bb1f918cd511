//go:build linux

package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Supported reports whether there can be a journal on this platform.
const Supported = true

// openFile opens a file for reading and writing, and creates it if there is none, which made reports. It doesn't follow
// symbolic links, and opens only regular files.
func openFile(path string) (f *os.File, made bool, err error) {
	const flags = os.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK
	for {
		f, err = os.OpenFile(path, flags, 0)
		if errors.Is(err, fs.ErrNotExist) {
			if f, err = os.OpenFile(path, flags|os.O_CREATE|os.O_EXCL, 0o600); errors.Is(err, fs.ErrExist) {
				continue // another process was faster
			}
			made = err == nil
		}
		break
	}
	if errors.Is(err, unix.ELOOP) {
		return nil, false, fmt.Errorf("journal %q is a symbolic link; expected a regular file", path)
	}
	if err != nil {
		return nil, false, fmt.Errorf("journal: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("journal %q is no regular file: %v", path, info.Mode())
	}
	if err == nil && made {
		err = f.Chmod(0o600) // regardless of the umask
	}
	if err != nil {
		_ = f.Close()
		return nil, false, err
	}
	return f, made, nil
}

// allocate makes the file at least size bytes long, and reserves space on the disk for them.
func allocate(f *os.File, size int64) error {
	for {
		if err := unix.Fallocate(int(f.Fd()), 0, 0, size); err != unix.EINTR {
			return err
		}
	}
}
