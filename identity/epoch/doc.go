// Package epoch names networks so that nobody can tell for long whose name it
// was: names are made under a key that is good for a day, and the key is
// destroyed when the day after is over.
//
// An epoch is a whole number of days of UTC, counted from 1970. Each has a key of
// 32 random bytes in a file of its own. Two are kept: that of the epoch that goes
// on, and that of the one before, by which it is found again what was counted
// before midnight. What has to be found again after more than a day, like the
// counts of a week, is named under longer epochs.
//
// # Invariants
//
//   - Whoever has the database and all files tells no more about a name of an
//     epoch before the last than whoever has the database alone.
//   - All processes that share a folder give the same names.
//   - Looking makes nothing: a key is made when something is to be named under it,
//     and never that of an epoch that is over.
package epoch
