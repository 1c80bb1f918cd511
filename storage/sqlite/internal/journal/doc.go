// Package journal makes charges durable at the speed of memory. It writes records to a file that is mapped into
// memory, and decides which process may write. Records survive the death of the process, also by SIGKILL, because
// the kernel has the pages. They don't survive a loss of power: nothing is synced.
//
// The package knows no SQL, limits or requests. The caller gives the numbers in a [Record] their meaning.
//
// # The file
//
// The first 4096 bytes are the header: the type of the file ("magic", version, sizes), the origin of its database, a
// random ID of its contents, and a checksum of these. The owner word follows, alone on its cache lines, and then the
// table with an entry for each segment. The segments follow, each an array of records of 64 bytes. All numbers have
// the byte order of the machine; a file with another byte order is not a journal.
//
// Segments are reused. Each use has a generation, an increasing number from 1 to 2^31-1 that is never used twice
// with the same ID. The segment's entry in the table has the generation with a checksum, and is written before the
// segment's first record.
//
// A record's first word has a checksum (32 bits), the generation (31) and the record's kind (1). The checksum covers
// the rest of the record, the file's ID and the record's place in the file. The first word is written last, by one
// atomic store, so a record is either complete or absent. Records of an earlier generation, of another file or of
// another place, noise, zeros and torn records are no records. A segment may have holes.
//
// A file of another version of this format is not a journal either: its pending records are lost.
//
// The file is allocated when it is opened, so that a full disk causes an error there. It may still be truncated later,
// or a copy-on-write file system may have no space for a copy. Then access to the mapping faults. All accesses turn a
// fault into a panic, which is recovered (see fault.go): the journal is broken from then on, and the process lives.
//
// # Who owns the journal
//
// Only the owner adds records. Several processes, and several Journals in one process, may have the file open. They
// use locks of the open file description, which end with the process whatever ends it. The locked bytes are far beyond
// the end of the file: one for elections, and 1024 for presence, of which each open Journal locks one. The owner word
// has the token of the owner, a new random number for each period, or 0.
//
//   - Open takes the election lock, creates or repairs the file, takes a presence byte, stores 0 in the
//     owner word, which revokes the owner, and releases the election lock.
//   - Own takes the election lock, makes sure that no other presence byte is locked, stores a new token in
//     the owner word, and releases the lock.
//   - Add reserves a place, writes the record, publishes its first word, and then reads the owner word. It
//     reports success only if that still has the owner's token.
//
// Why that is right:
//
//  1. There is at most one owner. Only Own makes one, and only of a Journal that is alone. Open and Own exclude
//     each other by the election lock, so a later Open revokes the owner before it returns.
//  2. After Open has returned, its caller finds every record whose Add reports success, now or later. Both
//     sides store one word and then load the other, in opposite orders, and these operations are
//     sequentially consistent. The writer stores the record and loads the owner word. The newcomer stores 0
//     in the owner word and loads the record. If the newcomer misses the record, the writer sees the 0, or a
//     later token, which is a different one.
//  3. Revoking waits for nobody: an owner that is stopped or hangs doesn't block it. Only a process that is
//     stopped inside Open or Own does.
//  4. A record that is written too late does no harm. Its Add reported failure, so nothing was based on it.
//     It also overwrites nothing: a place is reserved by only one Add, and only the owner gives a segment a
//     new generation, after all Adds of its earlier use have ended. Adds of an earlier owner have ended too.
//     Either that owner is closed, and Close waits for Adds; or it is dead, and its mapping ended before its
//     locks; or it is the same Journal, and Own waits for Adds.
//
// The argument requires that all processes have the same file open. InPlace detects a removed or replaced file.
//
// # Where it works
//
// On Linux, on file systems whose mappings and locks are known to be those of one machine: not on a network.
// Elsewhere [Open] returns [ErrUnsupported].
package journal
