//go:build unix

package sqlite

import (
	"io/fs"
	"syscall"
)

const noFollow = syscall.O_NOFOLLOW

// What a process may do with a file, for [access].
const (
	mayRead  = 4 // R_OK
	mayWrite = 2 // W_OK
)

// access returns an error if the process may not do something with a file. It
// opens nothing: see creating.
func access(path string, may uint32) error {
	if err := syscall.Access(path, may); err != nil {
		return &fs.PathError{Op: "access", Path: path, Err: err}
	}
	return nil
}
