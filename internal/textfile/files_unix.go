//go:build unix

package textfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// tryLock locks a file until it is closed, or returns false if another process has locked it.
func tryLock(f *os.File) (bool, error) {
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case err == nil:
		return true, nil
	case errors.Is(err, syscall.EWOULDBLOCK), errors.Is(err, syscall.EINTR):
		return false, nil
	default:
		return false, err
	}
}

// keepOwner gives a file to the owner of another.
func keepOwner(f *os.File, like fs.FileInfo) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	now, ok := info.Sys().(*syscall.Stat_t)
	want, known := like.Sys().(*syscall.Stat_t)
	if !ok || !known || now.Uid == want.Uid && now.Gid == want.Gid {
		return nil
	}
	return f.Chown(int(want.Uid), int(want.Gid))
}

// syncFolder makes a rename in a folder survive a loss of power.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// links returns how many names a file has, or 0 if that is unknown.
func links(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(stat.Nlink)
	}
	return 0
}
