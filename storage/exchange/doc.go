// Package exchange is the contract of exchanges, through which regions share counts and bans: a place, often a
// database, that all of them reach. Each region has its own strict store. An [Exchange] only carries the admitted
// units of keys, and banned clients. No request waits for it, and while it can't be reached, each region continues
// alone.
//
// # Rows
//
// A [Row] has the units that one machine of one region has admitted for one key of one limit in one group of time.
// It has one writer and only grows, so an exchange keeps the largest value. Writing a row twice, late or out of
// order changes nothing.
//
// Keys are names: keyed hashes that are the same in all regions, and that reveal no address.
//
// # Sequence
//
// Each change of a row or a ban has a number that is larger than all numbers that a reader may have collected
// before. So a reader that continues after its last number misses nothing.
package exchange
