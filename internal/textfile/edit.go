package textfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Edit replaces a file by the result of change, which gets the file's text, or an empty one if
// there is no file. If change returns an error or the same text, the file stays unchanged. The file
// and its folder are created if they don't exist; a symbolic link stays, and its target is
// replaced.
//
// Edits wait for one another by a lock on a file beside it, `.lock`. The system releases the lock
// of a process that dies. The next edit removes the files that such a process left behind.
func Edit(path string, most int64, change func(text []byte) ([]byte, error)) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	lock, err := acquire(path)
	if err != nil {
		return err
	}
	defer lock.Close() // releases the lock
	return replace(path, most, change)
}

// lockTimeout is how long an edit waits for others. Each takes milliseconds.
const lockTimeout = 10 * time.Second

// acquire returns the lock file of a path, locked.
func acquire(path string) (*os.File, error) {
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	giveTo(lock, ownerOf(path))
	for deadline := time.Now().Add(lockTimeout); ; time.Sleep(5 * time.Millisecond) {
		switch locked, err := tryLock(lock); {
		case err != nil:
			lock.Close()
			return nil, fmt.Errorf("locking %s: %w", lock.Name(), err)
		case locked:
			return lock, nil
		case time.Now().After(deadline):
			lock.Close()
			return nil, fmt.Errorf("%s is locked by another process for more than %v", lock.Name(), lockTimeout)
		}
	}
}

// replace writes the new file beside the old one, under a name that only the holder of the lock
// uses, and moves it into its place.
func replace(path string, most int64, change func([]byte) ([]byte, error)) error {
	temp := path + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) { // a crash has left it
		return err
	}
	fresh, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = rewrite(fresh, path, most, change); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp)
		if err == errUnchanged {
			return nil
		}
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// errUnchanged is the result of a change without effect.
var errUnchanged = errors.New("unchanged")

// rewrite writes the new content of path to a file, and closes the file.
func rewrite(fresh *os.File, path string, most int64, change func([]byte) ([]byte, error)) error {
	defer fresh.Close() // a second time if nothing fails
	text, info, err := Read(path, most)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	old := text
	if text, err = change(bytes.Clone(old)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if info != nil && bytes.Equal(old, text) {
		return errUnchanged
	}
	if int64(len(text)) > most {
		return fmt.Errorf("%s would have %d bytes, more than the %d that it may have", path, len(text), most)
	}
	if info == nil {
		giveTo(fresh, ownerOf(path))
	} else if err := keepOwner(fresh, info); err != nil {
		return err
	}
	_, err = fresh.Write(text)
	return errors.Join(err, fresh.Chmod(0o600), fresh.Sync(), fresh.Close())
}
