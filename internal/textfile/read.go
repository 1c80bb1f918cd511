package textfile

import (
	"fmt"
	"io/fs"
	"os"
)

// Read reads a file of at most so many bytes, and returns which version of it that was.
// What is no regular file is not opened: opening a pipe waits for somebody at its other end.
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

// same reports whether nothing has changed between two looks at a file.
func same(a, b fs.FileInfo) bool {
	return b != nil && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && os.SameFile(a, b)
}
