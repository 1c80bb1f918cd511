package textfile

import (
	"io/fs"
	"os"
	"path/filepath"
)

// This file gives what is made to the owner of what is there, so that a command run by root
// leaves no file that Caddy's own user can't read.

// makeFolder makes a folder and those above it, readable for their owner only.
func makeFolder(folder string) error {
	if _, err := os.Stat(folder); err == nil {
		return nil
	}
	above := filepath.Dir(folder)
	if above == folder {
		return &fs.PathError{Op: "mkdir", Path: folder, Err: fs.ErrNotExist}
	}
	if err := makeFolder(above); err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		if info, statErr := os.Stat(folder); statErr == nil && info.IsDir() {
			return nil // somebody else has made it meanwhile
		}
		return err
	}
	if made, err := os.Open(folder); err == nil {
		giveTo(made, ownerOf(folder))
		made.Close()
	}
	return nil
}

// ownerOf returns whose a file is, or if it doesn't exist, its folder. It returns nil if
// that isn't known.
func ownerOf(path string) fs.FileInfo {
	for _, path := range []string{path, filepath.Dir(path)} {
		if info, err := os.Stat(path); err == nil {
			return info
		}
	}
	return nil
}

// giveTo is keepOwner where the owner doesn't matter so much that anything fails without
// the right to do so.
func giveTo(f *os.File, like fs.FileInfo) {
	if like != nil {
		_ = keepOwner(f, like)
	}
}
