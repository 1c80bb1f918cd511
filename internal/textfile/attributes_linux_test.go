package textfile

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// A file keeps its attributes, which a new file wouldn't have.
func TestReplaceKeepsAttributes(t *testing.T) {
	path := fileOf(t, false)
	switch err := syscall.Setxattr(path, "user.note", []byte("x"), 0); {
	case errors.Is(err, syscall.ENOTSUP):
		t.Skip("the file system has no attributes")
	case err != nil:
		t.Fatal(err)
	}
	before, _ := os.Stat(path)
	if err := Replace(path, []byte(oneText), []byte(otherText)); err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 9)
	n, err := syscall.Getxattr(path, "user.note", value)
	if after, _ := os.Stat(path); err != nil || string(value[:n]) != "x" || !os.SameFile(before, after) || textOf(t, path) != otherText {
		t.Errorf("the attribute is %q, error %v", value[:max(n, 0)], err)
	}
}
