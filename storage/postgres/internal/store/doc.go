// Package store keeps counts in the tables of a Postgres server, version 13 or later, that several
// machines use.
//
// # Invariants
//
//   - A row has all of the state of one key of one limit. A batch locks the rows of its keys, decides
//     in this process with package limiter, and writes the rows, so decisions are never based on
//     stale states. A sum computed in a statement of its own would admit too much under READ
//     COMMITTED.
//   - Rows are locked in the order of their names, so that batches don't deadlock.
//   - Every batch that writes also writes its number to the row of this machine, in the same
//     transaction. If the answer to a commit is lost, the number says whether the batch took effect.
//     A number below an acknowledged one says that the server has lost writes.
//   - No state of a session outlasts a transaction, so that a pooler may use another session for each
//     transaction.
//   - Values in statements are numbers, and bytes in hexadecimal digits. There are no other
//     literals, so nothing can be injected.
//
// # Parts
//
//   - A [Place] is the tables, for all stores of a process one after the other. A line is a connection to it, for one
//     call at a time.
//   - The store's machine says which of its batches took effect, and whether the server has lost any.
//   - batches run on a line of their own, in numbered transactions. chores are everything else, on another line, so
//     that no request waits for them: news, the history, and the steps of the sweeper.
//   - times computes the time of a batch or a step from the server's clock.
//
// # Round trips
//
// A batch takes two. The first begins a transaction, locks and reads the rows of the keys and
// of the machine, and then reads the time. The second writes the changes and commits. So a lock is
// held for one round trip.
package store
