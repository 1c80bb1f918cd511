// Package storage is the contract between the decision engine and the stores
// that keep its counters. It is shaped for batches and takes contexts, so that
// a store may be an embedded database or a network service; nothing in it knows
// which.
//
// # Invariants
//
//   - A batch of claims is applied atomically and in order. What a grant says
//     was charged is charged before [Store.Claim] returns.
//   - The decision about a claim is [limiter.Limit.Claim] on the state that the
//     store holds for its limit and key. A store adds durability, not rules.
//   - Two stores opened on one place grant together what one would: never more
//     than the limit.
//   - A store keeps 16 bytes of a key: a keyed hash, made by the caller.
//   - A refused claim that gives nothing back writes nothing.
//   - Values read back are clamped to their range, never trusted.
//
// # Beside the counters
//
// A store may do more than [Store] asks for. Callers look whether it also is a [Timekeeper],
// which has one time for all processes; [Shared], which knows how many there are; a [Resetter],
// which forgets a key or a client; a [Prober], which tells what it would answer; an [Immediate],
// which answers claims without waiting while nobody else uses it; a [Joint], which reads records
// and claims in one call; a [Watcher], which tells what others have changed; a [Remote], which is
// on a network; a [Historian], which keeps what was decided; an [Auditor], which keeps who did
// what; a [Vault], which keeps values for all machines; or a [Notebook], which keeps notes for them
// and tells of changes.
//
// The suite in storage/storagetest holds every store to them.
package storage
