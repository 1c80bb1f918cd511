// Package siting checks places on a disk for files that must be safe: whether they are on a network
// file system, and who may read and write them. It changes nothing. It doesn't access network file
// systems, because one without its server would block the caller.
package siting

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// NetworkFileSystem returns the kind of network file system that contains the folder of a file, or
// "" if none is known.
func NetworkFileSystem(path string) string {
	mounts := readMounts()
	if kind := fileSystem(mounts, resolved(mounts, filepath.Dir(path))); isNetwork(kind) {
		return kind
	}
	return ""
}

// OpenFolder returns the folder of a file, or the nearest existing one above it, if all users of
// this machine may write to it; "" if not, or if it is on a network file system.
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

// OpenFile returns the mode of a file that its group may write to, or others may read or write to.
// The result is false for all other files, and if the mode is unknown.
func OpenFile(path string) (mode fs.FileMode, open bool) {
	mounts := readMounts()
	path, err := filepath.Abs(path)
	// Windows has no such mode
	if err != nil || runtime.GOOS == "windows" || isNetwork(fileSystem(mounts, resolved(mounts, path))) {
		return 0, false
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	mode = info.Mode().Perm()
	return mode, mode&0o027 != 0
}

// Contains reports whether a path lies in a folder, by their names or by the targets of their
// links.
func Contains(folder, path string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	mounts := readMounts()
	return isWithin(folder, path) || isWithin(resolved(mounts, folder), resolved(mounts, path))
}
