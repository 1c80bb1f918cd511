// Package cells is for stores that keep the whole state of a key in one entry. It computes when a state
// expires and which parts still count, and encodes states and records as bytes. It does no I/O.
package cells
