// Package journal makes charges durable for less than a transaction costs. It appends records to a file, and decides
// which process may. Records survive the death of the process, also by SIGKILL, because the kernel has them. They don't
// survive a loss of power: nothing is synced.
//
// The package knows no SQL, limits or requests. The caller gives the numbers in a [Record] their meaning.
//
// A disk may hang: a file system that is frozen for a snapshot, a device that doesn't answer. Every method that reads
// or writes the file then waits, in a system call and with the lock of the Journal. So it is called by goroutines that
// no request waits for without a limit of time. Nothing is mapped into memory: see contents.go (decision 80).
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
// A record's first word has a checksum (32 bits), the generation (31) and the record's kind (1). The generation also
// says in which period of ownership the record was written. The checksum covers the rest of the record, the file's ID
// and the record's place in the file. Records of an earlier generation, of another file or of another place, noise,
// zeros and torn records are no records. Records are appended to a segment one after the other, and those of one call
// by one system call for each segment.
//
// A file of another version of this format is not a journal either: its pending records are lost.
//
// The file is allocated when it is opened, so that a full disk causes an error there. It may still be truncated later,
// or a copy-on-write file system may have no space for a copy. An error of a system call breaks the journal. A file
// that became shorter is found by InPlace, by the missing owner word, or by a missing record.
//
// # Who owns the journal
//
// Only the owner adds records. Several processes, and several Journals in one process, may have the file open. They
// use locks of the open file description, which end with the process whatever ends it. The locked bytes are far beyond
// the end of the file: one for elections, and 1024 for presence, of which each open Journal locks one. The owner word
// has the token of the owner, a new random number for each period; 0 if there is none; 1 while somebody waits for the
// last write of a revoked one.
//
//   - Open takes the election lock, creates or repairs the file, and takes a presence byte. Unless the owner word is 0,
//     it stores 1 in it, which revokes the owner, waits for 20 ms if another presence byte is locked, and stores 0. If
//     its process is killed meanwhile, the next Open waits. Then it releases the election lock.
//   - Own takes the election lock, makes sure that no other presence byte is locked, stores a new token in
//     the owner word, and releases the lock.
//   - Add reads the owner word, and writes the records if that has the owner's token. If this took less than 10 ms, it
//     reports success. Otherwise it looks whether another presence byte is locked, and reads the owner word again. It
//     then reports success only if there is none, and the word still has the token.
//
// Why that is right:
//
//  1. There is at most one owner. Only Own makes one, and only of a Journal that is alone. Open and Own exclude
//     each other by the election lock, so a later Open revokes the owner before it returns.
//  2. After Open has returned, its caller finds every record whose Add reports success, now or later. A write that is
//     prompt has begun before the owner was revoked, and has ended before whoever revoked it reads anything. So a
//     handover leaves no charge in doubt, unless the disk is slow or the owner is stopped. For the others, both sides
//     write first and read then, in opposite orders: the writer its record, then the owner word; the newcomer the owner
//     word, then the records. In between, each makes a system call on the file's locks: the writer asks for the
//     presence bytes, the newcomer releases the election lock. The kernel orders these two calls. If the writer's is
//     first, the newcomer finds the record. If the newcomer's is first, the writer reads the 0, or a later token, which
//     is a different one, whether the newcomer is still there or not.
//  3. Revoking waits for nobody in particular: an owner that is stopped or hangs doesn't block it. Only a process that
//     is stopped inside Open or Own does.
//  4. A record that is written late, after its owner was revoked, does no harm. Its Add reports failure, so nothing was
//     granted on it. If it lands before a newcomer reads its segment, it is folded once, like any charge of unknown
//     outcome. If it lands later, it is never folded: its segment's generation is noted as folded. It also overwrites
//     nothing: only the owner gives a segment a new generation, after all writes of earlier owners have ended. Either
//     such an owner is closed, and Close waits for its lock; or it is dead, and its system calls ended before its locks
//     did; or it is the same Journal, and Own waits for the lock.
//
// proof/journal.pml is a model of this, with a mutant for each step.
//
// The argument requires that all processes have the same file open. InPlace detects a removed or replaced file.
//
// # Where it works
//
// On Linux, on file systems whose files and locks are known to be those of one machine: not on a network.
// Elsewhere [Open] returns [ErrUnsupported].
package journal
