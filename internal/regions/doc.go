// Package regions tells other regions what this one admits, and takes what they admit into
// account. It lies between the handler and the engine: each decision goes through
// [Regions.Decide], which tells the engine what of each key was admitted elsewhere, and counts
// what is admitted here. A loop publishes and collects these counts by an exchange. The
// arithmetic is that of package limiter/region.
//
// # Invariants
//
//   - No decision waits for the exchange: only the loop calls it.
//   - A count is marked as published only after the exchange has it.
//   - What is collected may be collected again: counts of others are never added up, but
//     replaced by larger ones.
//   - There are at most MaxKeys keys and as many names; further ones stay regional.
//
// # Files
//
//   - regions.go, options.go, stats.go: what others use
//   - decide.go: the way of a decision
//   - key.go, table.go: what is known of a key, here and elsewhere
//   - loop.go, publish.go, collect.go, bans.go, trim.go: the loop
//
// # Goroutines
//
// New starts one: the loop, which owns the exchange. Close stops it and waits for it.
//
// # Lock order
//
//  1. table.mu: the names, and what components have admitted under them.
//  2. key.mu: what this machine has admitted of a key.
//  3. shard.mu: which keys there are.
//  4. publishing.mu: which keys and bans are to be published.
//
// No call of the exchange or of the engine is made under any of them.
package regions
