// Package replay tells what rate limits would have done to the requests of an access log. A
// [Judge] decides about each of them at its time; this package reads the log, counts, and
// reports.
//
// # What is exact
//
//   - Which requests are refused, and of which clients, is what the judge says.
//   - The peak of a client is the most units that it wanted within one window, counted in the
//     slots of the limit, whatever was refused.
//   - The table of other amounts has each limit alone, with each client's requests as they are
//     in the log: a client that is refused may well come back at another time.
//
// # Invariants
//
//   - Memory grows with the number of clients of each limit (56 bytes each), and with those
//     that are active within its window. The texts of clients are kept of at most
//     maxOffenders that were refused, and user agents are cut and bounded.
//   - Nothing of a log is printed as it is: see [Report].
package replay
