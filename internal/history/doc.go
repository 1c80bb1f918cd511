// Package history counts decisions, minute by minute, and reports them to a store.
//
// A [Ledger] has a [Meter] for each series, a zone or a limit. Requests count in meters, with a few
// atomic operations. Once a minute a [Reporter] takes the meters' counts and writes them; reports
// that can't be written wait in memory.
//
// # Invariants
//
//   - Counts of a meter are taken once, and reported once, regardless of the store's errors: a
//     report that may have been written is sent again unchanged, and the store adds it only once.
//   - Waiting reports are bounded: the oldest ones are dropped, and the observer is notified.
//   - A meter keeps at most maxTracked keys, and only their names at rest leave memory.
package history
