// Package sqlstore keeps counts in the tables of an SQL server that several machines use. What
// is common to Postgres and MySQL is here; a [Dialect] has the differences.
//
// # Invariants
//
//   - A row is one key of one limit, with all of its state. So a batch locks the rows of its
//     keys, has package limiter decide about them in this process, and writes them: what is
//     charged was decided on what is there. A sum that is made in a statement of its own
//     admits too much where the server only promises READ COMMITTED.
//   - Rows are locked in the order of their names, so that batches don't wait for one another
//     in a circle.
//   - Every batch that writes also writes the row of this machine, in the same transaction:
//     the batch's number. Where the answer to a commit is lost, the number says whether the
//     batch took effect. A number lower than one that was acknowledged says that the server
//     has lost writes.
//   - Nothing lasts longer in a session than a transaction does, so that a pooler may give
//     each transaction another one.
//   - Values in statements are numbers, and bytes in hexadecimal digits. There are no other
//     literals, so nothing can be injected.
//
// # Round trips
//
// A batch takes two. The first begins a transaction, locks and reads the rows of the keys and
// of the machine, and then reads the time. The second writes what has changed and commits. A
// lock is held for one round trip, therefore.
package sqlstore
