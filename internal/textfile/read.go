package textfile

import (
	"fmt"
	"io/fs"
	"os"
)

// Read reads a file of at most so many bytes, and returns its version. It doesn't open anything but
// a regular file: opening a pipe would wait for its other end.
func Read(path string, most int64) ([]byte, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, info, fmt.Errorf("%q is not a file of at most %d bytes", path, most)
	}
	text, err := os.ReadFile(path)
	return text, info, err
}

// same reports whether two versions of a file are equal.
func same(a, b fs.FileInfo) bool {
	return b != nil && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && os.SameFile(a, b)
}
