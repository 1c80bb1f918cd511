// Package siting finds out how well places on a disk suit files that must be safe: whether
// they are on a network file system, and who may read and write them. It looks, and changes
// nothing. On network file systems it doesn't
// even look: one whose server is gone would hang everybody who does.
package siting

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// NetworkFileSystem returns the kind of network file system that the folder of a file is
// on, or "" if that is not known to be one.
func NetworkFileSystem(path string) string {
	mounts := readMounts()
	if kind := fileSystem(mounts, resolved(mounts, filepath.Dir(path))); isNetwork(kind) {
		return kind
	}
	return ""
}

// OpenFolder returns the folder of a file, or the nearest above it that exists, if
// everybody on this machine may write to it; "" if not, or if it is on a network file
// system.
func OpenFolder(path string) string {
	mounts := readMounts()
	folder := resolved(mounts, filepath.Dir(path))
	if isNetwork(fileSystem(mounts, folder)) {
		return ""
	}
	info, err := os.Stat(folder)
	for err != nil && filepath.Dir(folder) != folder {
		folder = filepath.Dir(folder)
		info, err = os.Stat(folder)
	}
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o002 == 0 { // Windows has no such mode
		return ""
	}
	return folder
}

// OpenFile returns the mode of a file that its group may write to, or others may read or
// write to. The result is false for all other files, and if nothing is known of it.
func OpenFile(path string) (mode fs.FileMode, open bool) {
	mounts := readMounts()
	path, err := filepath.Abs(path)
	if err != nil || runtime.GOOS == "windows" || isNetwork(fileSystem(mounts, resolved(mounts, path))) { // Windows has no such mode
		return 0, false
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	mode = info.Mode().Perm()
	return mode, mode&0o027 != 0
}

// Contains reports whether a path lies in a folder, by their names or by what these are
// links to.
func Contains(folder, path string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	mounts := readMounts()
	return isWithin(folder, path) || isWithin(resolved(mounts, folder), resolved(mounts, path))
}
