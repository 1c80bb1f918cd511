//go:build !unix

package sqlite

// noFollow has no counterpart here; what a name stands for is checked before.
const noFollow = 0
