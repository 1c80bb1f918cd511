// Package epoch keeps keys that are good for a day: what is hashed under one can't be linked
// to anybody once the key is destroyed, at the end of the next day.
//
// An epoch is a whole number of days of UTC, counted from 1970. Each has a key of 32 random
// bytes in a file of its own. Two keys are kept: that of the current epoch, and that of the
// one before, which finds what was counted before midnight. Counts that last longer than a
// day, such as those of a week, are hashed under keys of longer epochs.
//
// # Invariants
//
//   - Whoever has the database and all files learns no more about a hash from an epoch
//     before the last than somebody who has the database alone.
//   - All processes that share a folder hash alike.
//   - Looking up makes nothing: a key is made when something is to be hashed under it, and
//     never for an epoch that is over.
package epoch
