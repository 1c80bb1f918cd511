package storage

import "context"

// Marked is a store for processes that each have the secret of its names in a file. It notes a mark
// of that secret, so that they don't count apart because they have different ones.
type Marked interface {
	Shared

	// Mark notes the first of some marks, those of the lines of a process's secret, unless a process
	// that stays at a time has another one. It returns the mark before, which is zero if there was
	// none, and the one afterwards. Join fails once that was replaced.
	Mark(ctx context.Context, now int64, marks []Key) (former, kept Key, err error)
}
