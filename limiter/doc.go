// Package limiter is the arithmetic of rate limits: pure functions of a limit,
// the state of one key, the time and a cost. It knows no lock, clock, I/O,
// SQL, HTTP or logger, and it is not a rate limiter by itself: the engine
// (package internal/engine) calls it under its locks, and stores (package
// storage) call it inside their transactions.
//
// # Words
//
// A [Limit] is an amount of units per window, with an [Algorithm]. A [State]
// is the usage of one limit by one key. [Limit.Claim] decides how many units
// a key may have now and charges them to the state; a claim for exactly the
// cost of one request is the decision about that request. Units that are
// charged and not yet spent are a [Lease]; [Lease.Spend] spends them without
// reading the state again.
//
// # Time
//
// Times are nanoseconds since the Unix epoch, as given by [time.Time.UnixNano].
// Nothing here requires that they increase. Slots that lie in the future by more
// than one window and three quarters do not count until they are nearer, and a token
// bucket that lies in the future by more than one window, the time it takes to
// refill and [MaxSkew] is empty.
//
// # Invariants
//
// Let L be the amount, W the window and B the burst, and let the times of a key's claims never run
// backwards.
//
//   - Sliding: the units granted in any interval (t-W, t] are at most L. A unit
//     is remembered for at least W, and for less than W plus one slot.
//   - Fixed: the units granted in any window aligned to the epoch, or to the days
//     of a time zone, are at most L.
//   - Token bucket: the units granted in any interval of length T are at most
//     B + T·L/W.
//   - Units spent from leases obey the same bounds: a lease is never worth more than the part of
//     its charge that the state still remembers. For a token bucket this holds while its rate stays
//     the same: bucket and leases drain at the rate in force when they are read. If the rate
//     changes, or differs between the holders of a key, the units in leases at that time may be
//     admitted on top.
//   - A refused claim changes the state only by the units it gave back.
//   - [Grant.Retry] is exact: with no other traffic the same claim is granted
//     at now+Retry, and refused one nanosecond earlier. It ends at the largest
//     [time.Duration], and does not foresee slots that do not count yet because
//     they lie too far in the future.
//   - If the amount changes, the bounds of claims hold with the largest amount in the
//     interval. A bucket drains at the rate in force when it is charged, from the
//     charge before on.
//
// The fuzz targets in this package check each invariant against a slow oracle.
package limiter
