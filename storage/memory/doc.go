// Package memory is a store without a disk: counts and records of clients are in a [Database], a value of this
// process, and end with it. It implements [storage.Local] and [storage.Historian]. Use it where counts need not
// survive a restart, and in tests.
//
// A Database is like a file: stores that are opened on one Database, at the same time or one after the other,
// share its content.
//
// # Invariants
//
//   - A batch is applied under one lock, so it is atomic, and batches follow one another.
//   - Empty states are not stored: refused claims make no entries, whatever keys clients invent.
//   - A Database has a time of its own, which never runs backwards unless it is set back.
//   - Slots that no longer count are dropped with a later claim of their key.
//   - A Database takes at most [Options.MaxSize] bytes, an estimate, plus the additions of one batch. After
//     that, claims and offenses fail until a sweep makes room. Entries that still count are never evicted
//     for newer ones: otherwise clients that invent keys could delete the counts of others.
//
// # Layout
//
// Keys are spread over many small maps, the shards. A step of a sweep visits some of them, so that a claim waits
// only for a short step. A map that is empty after a sweep is freed, because Go's maps never shrink. The maps
// have references to records in a slab: a key takes some 80 bytes, and the garbage collector visits none of
// them. Each record begins with the time of its expiry, so a sweep needs no limits.
package memory
