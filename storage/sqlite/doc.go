// Package sqlite is the durable store: an embedded SQLite database in one file,
// in pure Go. It implements [storage.Store] and the contracts beside it; it knows no
// logger, HTTP or engine.
//
// # The file
//
// [Open] never lets SQLite open a file that is not this package's. A missing
// file is created, mode 0600, before SQLite sees the path; a symlink, a
// directory, another program's database or one of a newer version is refused
// with [storage.ErrForeign] and stays as it is, byte for byte, with nothing new
// beside it. A database of ours that is damaged is set aside under a dated
// name, all three files, and a fresh one is started; [Options.Notice] hears of
// it. Damage that is found while the store runs is remembered in a file beside
// the database (its name ends in "-damaged"), so that the next Open sets the
// database aside even if it looks sound from outside.
//
// A store whose file is not at its path any more claims nothing. When it is
// closed, it takes its log and its index away, unless they are another's by
// then, and leaves those of another alone: it would write over them. Neither does
// one claim anything whose log or index is not at its path: who opens the database
// then makes others, and two logs or indexes of one database spoil it.
//
// # Invariants
//
//   - The main file carries our application_id from its first commit on:
//     migrations run, and are committed, before the file is switched to WAL.
//   - While others may charge, every batch of claims is one BEGIN IMMEDIATE
//     transaction: states are read, [limiter.Limit.Claim] decides, changes are
//     written as upserts, or inserted where there is no row. Counters are never
//     cached between batches, because another process may write them.
//   - In a period (alone.go) this Store alone charges. Every change is a record of
//     the journal first, and each record is folded into the tables once (fold.go,
//     folded.go), in transactions that note the progress.
//     Before a transaction charges anything, all records before it are folded.
//   - A batch that changes nothing writes nothing.
//   - This process never closes a descriptor of its own on a healthy database
//     file while SQLite may hold locks on it: POSIX locks belong to the process
//     and would be lost with it (see files.go).
//   - The driver never sees a context that can be cancelled. It would start a
//     goroutine per statement, and could interrupt a commit half-way.
//   - What a commit writes to the log is in the file when it returns, in one
//     write for as much as a buffer holds (see internal/vfs).
//
// # Goroutines and locks
//
// The store owns two goroutines. One copies the write-ahead log into the main file when
// enough has been written. The other keeps the journal: it begins and ends periods, and folds.
// Both are started last by Open, and stopped and waited for by Close. Store.mu guards the write
// connection, Store.reading the one that claims of a period read with, wal.sideLock that of
// checkpoints, patient.lock the folds that nobody waits for. Whoever holds several took sideLock or
// patient.lock first, then mu, then reading.
//
// # Limits of time
//
// Counters are stored by window, which is the slot divided by the limit's
// number of slots, so that all rows of a window lie together and expire
// together. A row is therefore kept for up to one window longer than it counts.
package sqlite
