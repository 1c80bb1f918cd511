// Package replay reports what rate limits would have done to the requests of an access log. A
// [Judge] decides about each of them at its time; this package reads the log, counts, and
// reports.
//
// # What is exact
//
//   - Which requests are refused, and of which clients, is what the judge says.
//   - The peak of a client is the most units that it wanted within one window, counted in the
//     slots of the limit, whatever was refused.
//   - The table of smaller and larger limits has each limit alone, with each client's requests as they are
//     in the log: a client that is refused may well come back at another time.
//
// # Invariants
//
//   - Memory grows with the number of clients of each limit, some 45 bytes each, and with the
//     slots of its window in which each was active, some 5 bytes each up to maxSlotBytes in all.
//     The texts of clients are kept of at most maxOffenders that were refused, and user agents
//     are cut and bounded.
//   - Nothing that is kept of clients has pointers: the garbage collector doesn't look at it.
//   - Nothing of a log is printed as it is: see [Report].
package replay
