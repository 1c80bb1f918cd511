// Package regions shares counts of admitted units with other regions. It lies between the handler
// and the engine: each decision goes through [Regions.Decide], which passes the units admitted
// elsewhere to the engine, and counts the units admitted here. A loop publishes and collects these
// counts through an exchange (decision 102). The arithmetic is in package limiter/region.
//
// # Invariants
//
//   - No decision waits for the exchange: only the loop calls it.
//   - A count is marked as published only after the exchange has it.
//   - Rows may be collected repeatedly: counts of others are never added up, but replaced by larger
//     ones.
//   - There are at most MaxKeys keys and as many names; further ones stay regional.
//
// # Files
//
//   - regions.go, options.go, stats.go: the exported API
//   - decide.go: the path of a decision
//   - key.go, table.go: the counts of a key, here and elsewhere
//   - loop.go, publish.go, collect.go, bans.go, trim.go: the loop
//
// # Goroutines
//
// New starts one: the loop, which owns the exchange. Close stops it and waits for it.
//
// # Lock order
//
//  1. table.mu: the names, and the counts of components by name.
//  2. key.mu: the units of a key that this machine has admitted.
//  3. shard.mu: the keys.
//  4. publishing.mu: the keys and bans to publish.
//
// No call of the exchange or of the engine is made under any of them.
package regions
