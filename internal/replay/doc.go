// Package replay reports what rate limits would have done to the requests of an access log. A
// [Judge] decides about each of them at its time; this package reads the log, counts, and reports.
//
// # Exactness
//
//   - The judge determines exactly which requests are refused, and of which clients.
//   - The peak of a client is the most units that it wanted within one window, regardless of
//     refusals. It is counted in the slots of the limit.
//   - The table of smaller and larger limits treats each limit alone, with each client's requests
//     as they are in the log. A refused client may well come back at another time.
//
// # Invariants
//
//   - Memory grows with the number of clients of each limit, some 45 bytes each, and with the slots
//     of its window in which each was active, some 5 bytes each up to maxSlotBytes in all. The texts
//     of at most maxOffenders refused clients are kept, and user agents are cut and bounded.
//   - Data about clients has no pointers, so the garbage collector doesn't scan it.
//   - Nothing of a log is printed unescaped: see [Report].
package replay
