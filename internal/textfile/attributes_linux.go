package textfile

import (
	"bytes"
	"errors"
	"syscall"
)

var errAttributes = errors.New("the file has attributes that a new one can't have")

// sameAttributes returns an error unless two files have the same extended attributes, access lists included.
func sameAttributes(one, other string) error {
	names, err := attribute(func(room []byte) (int, error) { return syscall.Listxattr(one, room) })
	if err != nil {
		return err
	}
	others, err := attribute(func(room []byte) (int, error) { return syscall.Listxattr(other, room) })
	if err != nil || len(others) != len(names) {
		return errors.Join(err, errAttributes)
	}
	for name := range bytes.SplitSeq(bytes.Trim(names, "\x00"), []byte{0}) {
		if len(name) == 0 {
			continue
		}
		value := func(path string) ([]byte, error) {
			return attribute(func(room []byte) (int, error) { return syscall.Getxattr(path, string(name), room) })
		}
		a, err := value(one)
		b, errB := value(other)
		if err != nil || errB != nil || !bytes.Equal(a, b) {
			return errors.Join(err, errB, errAttributes)
		}
	}
	return nil
}

// attribute returns what read writes; file systems without attributes have none.
func attribute(read func([]byte) (int, error)) ([]byte, error) {
	room := make([]byte, 64<<10) // the most that Linux allows
	n, err := read(room)
	if errors.Is(err, syscall.ENOTSUP) {
		return nil, nil
	}
	return room[:max(n, 0)], err
}
