// Package exchange is the contract of what regions tell one another through: a place, often a
// database, that all of them reach. Each region has a strict store of its own; an [Exchange] only
// carries how much was admitted of which key, and which clients are banned. No request waits for
// it, and while it can't be reached each region goes on alone.
//
// # Rows
//
// A [Row] is what one machine of one region has admitted of one key of one limit in one group of
// time. It has one writer and only grows, so an exchange keeps the largest value that it was
// told. A row that is written twice, late or out of order changes nothing.
//
// Keys are names: keyed hashes that all regions make alike, and from which nobody reads an
// address.
//
// # Sequence
//
// Each change of a row or a ban gets a number that is larger than all that anybody could have
// collected before. So a reader that has collected all up to a number misses nothing when it goes
// on from there.
package exchange
