// Package keyfile creates files with keys. No process ever reads half of a key, only the owner can read it, and
// several processes that create it at once get the same key.
package keyfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Make creates a file with the given content and mode 0600, and its folder with mode 0700. It doesn't change an
// existing file.
//
// It writes the content to a temporary file and links that to the path, so that the first of several processes
// succeeds, and the others find its file.
func Make(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix+"*")
	if err != nil {
		return withPath(err, path)
	}
	defer os.Remove(f.Name())
	if err := write(f, content); err != nil {
		return withPath(err, path)
	}
	err = os.Link(f.Name(), path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return makeInPlace(path, content) // the file system has no hard links
}

// withPath replaces the temporary file in an error by path. Temporary files differ from try to try, and equal
// errors must look the same.
func withPath(err error, path string) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: e.Op, Path: path, Err: e.Err}
	}
	return err
}

// Keep creates a file as Make does. If it exists, Keep does nothing at all.
func Keep(path string, content []byte) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return Make(path, content)
}

const tempPrefix = ".tally-key-"

// makeInPlace writes a file at its path. A process that reads half of it meanwhile may retry.
func makeInPlace(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return write(f, content)
}

func write(f *os.File, content []byte) error {
	_, err := f.Write(content)
	return errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close())
}

// abandoned is the age from which on a temporary file is one that a crash left behind.
const abandoned = time.Hour

// Sweep removes temporary files of crashed processes from a folder.
func Sweep(folder string, now time.Time) error {
	left, err := filepath.Glob(filepath.Join(folder, tempPrefix+"*"))
	errs := []error{err}
	for _, path := range left {
		info, err := os.Stat(path)
		if err == nil && now.Sub(info.ModTime()) > abandoned {
			err = os.Remove(path)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
