package textfile

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks a file until it is closed, or returns false if another process has locked it.
func tryLock(f *os.File) (bool, error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	switch err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped)); {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION):
		return false, nil
	default:
		return false, err
	}
}

// keepOwner does nothing: a new file has the rights of its folder.
func keepOwner(*os.File, fs.FileInfo) error { return nil }

// syncFolder does nothing: folders can't be synchronized.
func syncFolder(string) error { return nil }

// links returns 0: how many names a file has is unknown.
func links(fs.FileInfo) int64 { return 0 }
