//go:build !unix

package sqlite

// noFollow has no counterpart here; what a name stands for is checked before.
const noFollow = 0

// What a process may do with a file, for [access].
const (
	mayRead = iota
	mayWrite
)

// access knows of no hindrance here: that shows when the file is used.
func access(string, int) error { return nil }
