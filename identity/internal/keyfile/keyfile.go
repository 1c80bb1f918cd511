// Package keyfile makes files with keys, so that nobody ever reads half of one,
// nobody but the owner can read it, and of several processes that make it at
// once all get the same.
package keyfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Make makes a file with the given content and mode 0600, and its folder with
// mode 0700. A file that exists already is left as it is.
//
// The content is written beside the path and then linked there, so that whoever
// comes second finds the first one's.
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
	return makeInPlace(path, content) // where files can't have two names
}

// withPath returns an error about a temporary file as one about path: each try has another temporary
// file, and its error must not look like another one.
func withPath(err error, path string) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: e.Op, Path: path, Err: e.Err}
	}
	return err
}

// Keep makes a file as Make does, and does nothing at all if it is there.
func Keep(path string, content []byte) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return Make(path, content)
}

const tempPrefix = ".tally-key-"

// makeInPlace writes a file where it is to be. Whoever reads half of it meanwhile
// may try again.
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

// abandoned is the age from which on a file that was to become a key is one that
// a crash left behind.
const abandoned = time.Hour

// Sweep removes from a folder the files of crashes in the middle of
// Make.
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
