package textfile

import (
	"io/fs"
	"os"
	"path/filepath"
)

// This file gives new files the owner of existing ones, so that a command run by root leaves no
// file that Caddy's own user can't read.

// makeFolder creates a folder and its parents, readable for their owner only.
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
			return nil // another process created it meanwhile
		}
		return err
	}
	if made, err := os.Open(folder); err == nil {
		giveTo(made, ownerOf(folder))
		made.Close()
	}
	return nil
}

// ownerOf returns the owner of a file, or of its folder if the file doesn't exist. It returns nil
// if that is unknown.
func ownerOf(path string) fs.FileInfo {
	for _, path := range []string{path, filepath.Dir(path)} {
		if info, err := os.Stat(path); err == nil {
			return info
		}
	}
	return nil
}

// giveTo is keepOwner for a file whose owner is less important: missing permission is no error.
func giveTo(f *os.File, like fs.FileInfo) {
	if like != nil {
		_ = keepOwner(f, like)
	}
}
