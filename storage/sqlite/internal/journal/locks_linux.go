//go:build linux

package journal

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lock locks bytes of a file for its open file description, without waiting. It returns false if another description
// has locked one of them.
func lock(f *os.File, first, n int64) (bool, error) {
	err := control(f, unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: first, Len: n})
	if err == unix.EAGAIN || err == unix.EACCES {
		return false, nil
	}
	return err == nil, lockError(err)
}

func unlock(f *os.File, first, n int64) error {
	return lockError(control(f, unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK, Start: first, Len: n}))
}

// lockedByOthers reports whether another open file description has one of the bytes locked.
func lockedByOthers(f *os.File, first, n int64) (bool, error) {
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: first, Len: n}
	err := control(f, unix.F_OFD_GETLK, &l)
	return l.Type != unix.F_UNLCK, lockError(err)
}

func control(f *os.File, command int, l *unix.Flock_t) error {
	l.Whence = 0 // from the file's beginning
	for {
		if err := unix.FcntlFlock(f.Fd(), command, l); err != unix.EINTR {
			return err
		}
	}
}

func lockError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOLCK), errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: locks of open file descriptions: %w", ErrUnsupported, err)
	}
	return fmt.Errorf("locks of open file descriptions: %w", err)
}
