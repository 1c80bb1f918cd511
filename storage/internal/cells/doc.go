// Package cells is the arithmetic that stores share which keep the whole state of a key in one
// entry: when it expires, what of it counts no more, and how it is written as bytes. It knows
// no place where states are kept.
package cells
