// Package journal makes charges durable at the speed of memory: records in a file that is
// mapped into memory, and the question who may write to it. What a process has stored there
// survives its death, also by SIGKILL, because the kernel has the pages. It does not survive
// the loss of power: nothing here is synced.
//
// The package knows no SQL, no limits and no requests. What the numbers of a [Record] mean is
// its user's business.
//
// # The file
//
// The first 4096 bytes are the header: what the file is ("magic", version, sizes), the origin
// of the database it belongs to, a random id of its contents, and a checksum of these. Then,
// alone on its cache lines, the owner word; then the table, an entry for each segment. The
// segments follow, each an array of records of 64 bytes. All numbers have the byte order of
// the machine: a file from a machine with another one is no journal.
//
// A segment is used again and again. Each use has a generation, a number from 1 to 2^31-1
// that increases and is never used twice while the id stays the same. The segment's entry in
// the table holds the generation, with a checksum of its own, and is written before the
// segment's first record.
//
// A record's first word holds a checksum (32 bits), the generation (31) and the record's kind
// (1). The checksum is of all the rest of the record, of the file's id and of the record's
// place in the file. The first word is written last, by one atomic store, so a record is
// there as a whole or not at all; and records of an earlier generation, of another file or of
// another place, noise, zeros and torn records are no records. A segment may have holes.
//
// A file of another version of this format is no journal either: what is pending there is lost
// to who opens it.
//
// The file is allocated when it is opened, so that a full disk shows there. It may still be
// truncated later, or a file system that copies on write may have no space for the copy: then
// access to the mapping faults. Every access is made so that a fault becomes a panic, which
// is recovered (see fault.go): the journal is broken from then on, and the process lives.
//
// # Who owns the journal
//
// Only its owner adds records. Several processes, and several Journals in one process, may
// have the file open; who that is, is said by locks of the open file description, which end
// with the process whatever ends it. They are on bytes far behind the end of the file: one
// for elections, and a range of 1024 of which each open Journal has one, its presence. The
// owner word holds the token of the owner, a random number that is drawn anew each time, or 0.
//
//   - Open takes the election lock, makes or repairs the file, takes a presence byte, stores
//     0 in the owner word, which revokes whoever owns the journal, and lets the lock go.
//   - Own takes the election lock, makes sure that no other presence byte is locked, stores a
//     new token in the owner word, and lets the lock go.
//   - Add reserves a place, writes the record, publishes its first word, and then reads the
//     owner word. It reports success only if that still holds the owner's token.
//
// Why that is right:
//
//  1. There is one owner at most. Only Own makes one, and only for a Journal that is alone; as
//     Open and Own exclude each other by the election lock, whoever opens later revokes it
//     before Open returns.
//  2. After Open has returned, its caller finds every record whose Add reports success, ever.
//     Both sides store and then load, each two words in the opposite order, and these
//     operations are sequentially consistent: the writer stores the record and loads the
//     owner word, the newcomer stores 0 in the owner word and loads the record. If the newcomer
//     misses the record, the writer sees the 0 (or a later token, of which none is the same).
//  3. Revoking asks nobody: an owner that is stopped or hangs keeps nobody waiting. Only one that
//     is stopped within Open or Own does.
//  4. A record that was written too late does no harm. Its Add reported failure, so nobody
//     acted on it; it lies where nobody else writes: a place is reserved by one Add only, and
//     a segment gets a new generation only by the owner, after all Adds of its earlier use
//     have ended. Those of an earlier owner have ended, too: it is gone, by Close, which waits
//     for them, or by its death, in which the mapping ends before the locks; or it is the same
//     Journal, and then Own waits for them.
//
// The argument needs that all have the same file open. If somebody removes or replaces it, it
// doesn't hold; InPlace finds out.
//
// # Where it works
//
// On Linux, on file systems of which it is known that mappings and locks are the machine's:
// not on a network. Elsewhere [Open] returns [ErrUnsupported].
package journal
