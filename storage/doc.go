// Package storage is the contract between the decision engine and the stores that keep its counters.
// Calls are batches and take contexts, so that a store may be an embedded database or a service on a
// network.
//
// # Invariants
//
//   - A batch of claims is applied atomically and in order. Granted units are charged before
//     [Store.Claim] returns.
//   - The decision about a claim is [limiter.Limit.Claim] on the state that the store holds for its
//     limit and key. A store adds durability, not rules.
//   - Two stores opened on one place together grant what one would, never more than the limit.
//   - A store keeps 16 bytes of a key: a keyed hash, made by the caller.
//   - A refused claim that gives nothing back writes nothing.
//   - Values read from disk or network are clamped to their range, never trusted.
//
// # To add a store
//
// Every store implements [Store]. A store for the processes of one machine is a [Local], which grants
// claims at once while one process has it to itself. A store for several machines is a [Network],
// which also has deadlines, notifies machines of changes, and keeps their notes and keys. The suite
// in storage/storagetest tests all of them; docs/stores-of-your-own.md says in which order to begin, and
// examples/store-bbolt is a store outside of this module.
package storage
