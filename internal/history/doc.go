// Package history counts what is decided, minute by minute, and reports it to a store.
//
// A [Ledger] has a [Meter] for each series, a zone or a limit. Requests count in meters, with
// a few atomic operations. A [Reporter] takes what the meters have counted once a minute and
// writes it; what can't be written waits in memory.
//
// # Invariants
//
//   - What a meter has counted is taken once, and reported once, whatever the store says:
//     a report that may have been written is sent again as it is, and the store adds it
//     only once.
//   - What waits in memory is bounded: the oldest goes first, and the observer hears of it.
//   - A meter keeps at most maxTracked keys, and of them what they are called at rest is all
//     that leaves memory.
package history
