// Package epoch keeps hash keys that are valid for a day. Once a key is destroyed, at the end of the next
// day, its hashes can't be linked to anybody. Keys are random, because a key that can be derived can't be destroyed
// (decision 20).
//
// An epoch is a whole number of UTC days, counted from 1970. It has a key of 32 random bytes in a file of
// its own. Two keys are kept: that of the current epoch, and that of the previous one, which finds the
// counts from before midnight. Counts that last longer than a day, such as those of a week, are hashed
// under keys of longer epochs.
//
// # Invariants
//
//   - For hashes from an epoch before the last two, the database with all files reveals no more than
//     the database alone.
//   - All processes that share a folder make the same hashes.
//   - Lookups create nothing. A key is created when a hash under it is made, and never for an epoch that
//     is over.
package epoch
