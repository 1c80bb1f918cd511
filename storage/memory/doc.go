// Package memory is a store without a disk: counts and standings live in a
// [Database], a value in this process, and end with it. It implements
// [storage.Store], and what its callers look for beside that. Use it where counts need not survive a
// restart, and in tests.
//
// A Database takes the place of a file. Stores that are opened on one Database,
// at the same time or one after the other, share what it holds; another Database
// is another place.
//
// # Invariants
//
//   - A batch is applied under one lock, so it is atomic, and batches follow one
//     another.
//   - A state is stored only if it says something: claims that are refused make
//     no entry, whatever keys clients invent.
//   - A Database has a time of its own, that of calls within a term: no call is
//     of an earlier time than one before it, unless the time was set back.
//   - Slots that no longer count are dropped with a later claim of their key.
//   - A Database takes at most [Options.MaxSize] bytes, estimated, and what one
//     batch adds. From then on claims and offenses fail until a sweep has made
//     room. Nothing that still counts is ever given up for something newer:
//     otherwise clients that invent keys could have the counts of others deleted.
//
// # How it is laid out
//
// Keys are spread over many small maps, the shards. A step of a sweep walks some
// of them, so that a claim waits for a short step only, and a map that is empty
// after a sweep is given back, because Go's maps never shrink. A map has the names
// of records, which lie in a slab: a key takes some 80 bytes, and the garbage
// collector looks at none of them. Each record begins with the time from which on it
// says nothing, so a sweep needs to know no limits.
package memory
