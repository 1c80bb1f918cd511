// Package engine decides about requests. It holds in memory the state that most decisions need, and
// charges a store, through the contract of package storage, before anything is admitted. It knows
// no HTTP, no SQL, no logger and no policy: a request brings its limits along, so that an old and a
// new configuration can share one engine.
//
// # How a request is decided
//
// A request is a list of debits: one key, limit and cost each. It takes all of
// them or none.
//
//  1. If memory knows that a key is blocked, the request is refused. This takes a lookup and an
//     atomic load per key, and no lock.
//  2. The cells of the keys are locked. If the lease of each covers its debit, all are spent.
//  3. Otherwise, while this process has a store in memory to itself, the missing units are claimed at
//     once if memory knows that they are free (atonce.go).
//  4. Otherwise claims for the missing units go into the open batch, and the request waits for that
//     batch. The committer sends a batch to the store in one transaction, or at once those claims of
//     which memory knows that they are free, for any number of waiting requests. The next batch fills
//     up meanwhile. Then the request tries again, as of the time of the batch.
//  5. If a claim was refused, so is the request, and the key is blocked until the time returned by
//     the store.
//
// A claim asks for a little more than the waiting requests need. The rest is the key's lease: units
// that are charged and not spent. Later requests spend them without the store. Unspent units are
// given back with the key's next claim, when the key is evicted, and when the engine is closed.
//
// Pending debits (pending.go) learn only later whether their request counts. Held debits are spent,
// and put back into the lease or given back to the store if the request doesn't count (hold.go).
// The other pending debits need a lease that covers them, and spend it only when the request is
// known to count (afterwards.go).
//
// A store on a network takes a round trip for each call (network.go). There a lease is renewed
// before it is used up, while requests spend it (renew.go). Units of a nearly used-up limit are
// given back soon (deliver.go). Records are read in one call with the claims, which assume the limit
// of an unknown client. If the record of a request's client says otherwise, the request claims
// again.
//
// A debit may have a client. The client's record (clientstate.go, and package reputation) chooses
// among the limits of one ID. A request may be from a client, and is refused while that client is
// banned. The record of a client is read with its first batch, and again with each later one.
// Violations (violations.go) are noted in memory at once. The store records them before the next
// batch, or with the next batches if there are too many. On a network it records them after the
// batch, so that no request waits for them. If violations change the client's limits, the request
// is decided again, so that its retry time is true.
//
// If the store does not answer a request in time, memory decides about it. If the store fails, or
// has answered no request in that time, memory decides about all requests: an outage. Each key may
// then use a share of its limit, less its known usage (local.go). Units admitted by memory are a
// debt, which is charged first when the store is back (debt.go). If the store is a different one by
// then, because its database was replaced, the usage known to memory is charged as well (catchup.go).
//
// # Invariants
//
//   - Every admitted unit was charged to the store before, or is a debt that memory knows.
//   - A request that is refused spends nothing of any lease.
//   - No key is blocked that the store and this process's own lease have enough for. Units held by
//     another process may block it, for at most the retry time of the refusal.
//   - A blocked request takes no lock and does not wait. If violations of its client are counted,
//     it takes the lock of that client's state, under which nothing waits.
//   - A banned request takes no lock and does not wait. It changes nothing except whether the ban
//     was reported.
//   - A decision waits at most StoreTimeout, and only for the store. In the first
//     two seconds of an engine it also waits for the store to be opened.
//   - Cells, those of clients included, number at most MaxKeys, and one more for
//     each claim in flight and each request that holds something. The memory of their bodies is at
//     most about twice what they need.
//   - Units held by a request are given back at most once, to the slot they were charged in. They
//     are not given back once the store has forgotten them. Until then the cell of their key stays.
//   - While the store can't be used, a key has at most some 65 slots and debts, regardless of the
//     number of slots of its limit.
//   - At most maxOffenses offenses wait to be recorded in the store.
//   - Units charged before a reset are never given back after it: the committer drops them before
//     it makes its next call (reset.go).
//   - The engine's time never runs backwards.
//
// Further invariants are documented at the types committer, writer, leases, eraser, cell, chunks,
// blocks, headroom and table.
//
// # Goroutines
//
// New starts three: the committer (committer.go), which owns the store, the janitor (janitor.go),
// which sweeps it, and the poller (poller.go), which asks it for news and writes notes. Close stops
// them and waits for them, and for the goroutines of shadow decisions that wait for the store
// (shadow.go), at most maxShadows. Timers of the committer run on their own goroutines: they report
// an outage, and end the time that decisions wait for the store to be opened.
//
// # Files
//
//   - decide.go, elsewhere.go, atonce.go, wait.go: the path of a request
//   - pending.go, hold.go, afterwards.go: pending requests
//   - shadow.go: decisions that refuse no request
//   - decision.go, options.go, stats.go: input and output
//   - table.go, chunk.go, cell.go, numbered.go, rare.go, limits.go, blocks.go, headroom.go,
//     clientstate.go, clients.go, local.go, debt.go: the state in memory
//   - queue.go, batch.go, committer.go, writer.go, claim.go, deliver.go, offenses.go: from
//     a cell to the store and back
//   - connection.go, term.go, clock.go, era.go, processes.go: the store, and its time
//   - network.go, renew.go, poller.go, notes.go: a store on a network
//   - keys.go, reset.go, forecast.go, charge.go, task.go: lists and operations for operators
//   - outage.go, recovery.go, catchup.go: when the store fails
//   - closing.go, janitor.go: ends, and cleaning up
//
// # Lock order
//
// A goroutine that holds a lock takes only locks further down in this list:
//
//  1. shard.mu: the cells of a shard.
//  2. cell.mu: the state of a key. Several are taken in the order of limit and
//     key.
//  3. queue.mu: the open batch, and tasks.
//  4. clientState.mu: the state of a client.
//  5. offenses.mu: the offenses that wait to be recorded in the store.
//  6. outage.mu: the times of an outage.
//  7. waiting.mu: the number of waiting decisions.
//  8. poller.mu: the clients whose records are to be read again.
//  9. keeping.mu: the time of a store that keeps no time.
//  10. numbered.mu and limits.mu: objects with bodies, fields of few cells, and limits, by number.
//
// No store, observer or other callback is called under any of them, except claims at once of a store that
// isn't on a disk, and the names for them, which never wait ([storage.Local]).
package engine
