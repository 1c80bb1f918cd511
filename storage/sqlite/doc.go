// Package sqlite is the durable store: an embedded SQLite database in one file, in pure Go. It implements
// [storage.Local] and [storage.Historian]. It knows no logger, HTTP or engine.
//
// # The file
//
// [Open] never lets SQLite open a file of another program. It creates a missing file, with mode 0600,
// before SQLite sees the path. It refuses a symlink, a directory, another program's database or one of a
// newer version with [storage.ErrForeign], changes no byte of it, and creates nothing beside it. If our
// database is damaged, its three files are set aside under a dated name, a fresh database is started, and
// [Options.Notice] is called. Damage that is found while the store runs is noted in a file beside the
// database, whose name ends in "-damaged". So the next Open sets the database aside even if it looks
// sound.
//
// A store whose file is no longer at its path grants no claims. When it is closed, it removes its log and
// its index, unless those at the paths belong to another database by then. A store whose log or index is
// no longer at its path grants no claims either: a process that opens the database creates others, and
// two logs or indexes corrupt a database.
//
// # Invariants
//
//   - The main file has our application_id from its first commit on: migrations are committed before
//     the file is switched to WAL.
//   - While other processes may charge, every batch of claims is one BEGIN IMMEDIATE transaction:
//     states are read, [limiter.Limit.Claim] decides, changes are written as upserts, or inserted
//     where there is no row. Counters are never cached between batches, because another process may
//     write them.
//   - In a period (alone.go) this Store alone is charged. Every change is first a record of the
//     journal, written before anything is granted. Each record is folded into the tables once (fold.go,
//     folded.go), in transactions that note the progress. All earlier records are folded before a
//     transaction charges anything, and no other claim of the period is decided until it is committed.
//   - A batch that changes nothing writes nothing.
//   - This process never closes its own descriptor of a healthy database file while SQLite may hold
//     locks on it: POSIX locks belong to the process, and closing any descriptor releases them (see
//     files.go).
//   - The driver never sees a context that can be cancelled. It would start a goroutine per
//     statement, and could interrupt a commit halfway.
//   - When a commit returns, its pages are in the log, written with as few writes as the buffer allows
//     (see internal/vfs).
//
// # Goroutines and locks
//
// A disk may hang for any time, and every call with it, except Period, IsNew and OnDisk. It hangs in system
// calls only, never in a page fault: the journal isn't mapped, and stores of SQLite into its index wait
// before (internal/vfs).
//
// The store owns two goroutines. One copies the write-ahead log into the main file when enough has been
// written. The other one maintains the journal: it begins and ends periods, and folds. Open starts both
// last; Close stops them and waits.
//
// Each connection, and each of the two goroutines, belongs to one type:
//
//	Store         implements the contract, one method for each of its calls
//	transactions  the write connection, under mu, and what transactions have read: claimer, standings, resets,
//	              side, sweeper
//	periods       the journal's file and the present period; decides whether a charge may go to the journal
//	folds         brings the journal's records to the tables, under patient.lock if no caller waits
//	keeper        the journal's goroutine: when periods begin and end, when folds run, the filter of new keys
//	reader        the connection with which claims of a period read, under periods.reading
//	wal           the connection of checkpoints and of reads of the past, under sideLock, and their goroutine
//	place         the files and their damage; has no lock
//
// Store knows all of them. Of transactions, periods, folds and keeper each knows only those before it, and reader knows
// periods. Transactions request checkpoints of wal. All know place.
//
// The order of locks is sideLock or patient.lock, then mu, then reading.
//
// # Limits of time
//
// Counters are stored by window, which is the slot divided by the limit's number of slots. So all rows of a
// window lie together and expire together. A row is therefore kept for up to one window longer than it
// counts.
package sqlite
