// Package engine decides about requests. It holds in memory what it needs to
// decide most of them, and charges a store, through the contract of package
// storage, before anything is admitted. It knows no HTTP, no SQL, no logger and
// no policy: a request brings its limits along, so that an old and a new
// configuration can share one engine.
//
// # How a request is decided
//
// A request is a list of debits: one key, limit and cost each. It takes all of
// them or none.
//
//  1. If memory knows that one of the keys is refused until later, the request
//     is refused: a lookup and an atomic load per key, no lock.
//  2. The cells of the keys are locked. If the lease of each covers its debit,
//     all are spent.
//  3. Otherwise, while this process has the store to itself, what is missing is
//     claimed at once, if memory knows that it is free (atonce.go).
//  4. Otherwise claims for what is missing go into the open batch, and the
//     request waits for that batch. The committer puts a batch to the store in
//     one transaction, however many wait for it, and the next batch fills up
//     meanwhile. Then the request tries again, as of the time of the batch.
//  5. If a claim was refused, so is the request, and the key is blocked until
//     the time the store says.
//
// A claim asks for a little more than what is waiting, and the rest is the
// key's lease: units that are charged and not spent, which later requests spend
// without the store. What is not spent is given back: with the key's next
// claim, when the key is evicted, and when the engine is closed.
//
// Of some debits it is known only later whether the request counts (pending.go). Those that are
// held are spent, and put back into the lease or given back to the store if it doesn't (hold.go).
// The others need a lease that covers them, and spend nothing of it until they are known to count
// (afterwards.go).
//
// A store on a network takes a round trip for each call (network.go). There a lease is renewed
// before it is used up, while requests spend it (renew.go); what few are left of is given back
// soon (lent.go); and records are read in one call with the claims, which are made by the limit of
// a client that nothing is known of. A request whose client's record says otherwise claims again.
//
// A debit may have a client, whose record (clientstate.go, and package reputation) chooses
// among the limits of one ID. A request may be from a client, and is refused while that
// is banned. The record of a client is read with the first batch that it comes in, and
// again with each later one. Violations (violations.go) are noted in memory at once, and
// recorded in the store before the next batch or, if there are too many, with the next ones; on a
// network after it, so that no request waits for them.
// If they change the client's limits, the request is decided again, so that the time to
// wait is true.
//
// If the store does not answer a request in time, memory decides about it. If the store
// fails, or has not answered anybody in that time, memory decides about all requests: an
// outage. Each key may then have a share of its limit, less what is known to be used
// (local.go). What memory admits is a debt, which is charged when the store is back,
// before anything else (debt.go). If it is another store then, because its database was
// replaced, what memory knows to be used is charged as well (replay.go).
//
// # Invariants
//
//   - What is admitted was charged to the store before, or is a debt that memory knows.
//   - A request that is refused spends nothing of any lease.
//   - No key is blocked that the store and this process's own lease have enough for.
//     What another process holds may block it, for no longer than a refusal tells.
//   - A blocked request takes no lock and does not wait. If violations of its
//     client are counted, it takes the lock of that client's state, under which
//     nothing waits.
//   - A banned request takes no lock and does not wait. It changes nothing but whether
//     the ban was reported.
//   - A decision waits at most StoreTimeout, and only for the store. In the first
//     two seconds of an engine it also waits for the store to be opened.
//   - Cells, those of clients included, number at most MaxKeys, and one more for
//     each claim in flight and each request that holds something.
//   - What a request holds is given back at most once, to the slot that it was charged in, and
//     not at all once the store has forgotten it. Until then its key's cell stays.
//   - While the store can't be used, a key has some 65 slots and debts at most,
//     however many slots its limit has.
//   - Offenses that the store has yet to record number at most maxOffenses.
//   - What was charged before a reset is never given back after it: the committer drops
//     what was reset before it makes its next call (reset.go).
//   - The engine's time never runs backwards.
//
// The types committer, writer, leases, eraser, cell, blocks, headroom and table state their own.
//
// # Goroutines
//
// New starts three: the committer (committer.go), which owns the store, the janitor
// (janitor.go), which sweeps it, and one that asks it for news and puts notes (news.go). Close stops them and waits
// for them, and for those of shadow decisions that wait for the store (shadow.go), at most
// maxShadows. Timers of the committer run on goroutines of their own: they report an outage, and end the time that
// decisions wait for the store to be opened.
//
// # Files
//
//   - decide.go, elsewhere.go, atonce.go, wait.go: the way of a request
//   - pending.go, hold.go, afterwards.go: requests of which it is known later whether they count
//   - shadow.go: decisions that refuse nobody
//   - decision.go, options.go, stats.go: what goes in and comes out
//   - table.go, cell.go, blocks.go, headroom.go, clientstate.go, clients.go, local.go, debt.go: what
//     memory knows
//   - queue.go, batch.go, committer.go, writer.go, claim.go, deliver.go, offenses.go: from
//     a cell to the store and back
//   - connection.go, term.go, clock.go, era.go, processes.go: the store, and its time
//   - network.go, renew.go, lent.go, news.go, notes.go: a store on a network
//   - keys.go, reset.go, forecast.go, order.go: what operators see and do
//   - outage.go, recovery.go, replay.go: when the store fails
//   - closing.go, waiting.go, janitor.go: ends, and cleaning up
//
// # Lock order
//
// A goroutine that holds a lock takes only locks further down in this list:
//
//  1. shard.mu: which cells there are in a shard.
//  2. cell.mu: the state of a key. Several are taken in the order of limit and
//     key.
//  3. queue.mu: the open batch, and orders.
//  4. clientState.mu: what is known of a client.
//  5. offenses.mu: the offenses that the store has yet to record.
//  6. outage.mu: the times of an outage.
//  7. waiting.mu: how many decisions wait.
//  8. newsroom.mu: the clients whose records are to be read again.
//  9. keeping.mu: the time of a store that keeps none.
//
// No store, observer or other callback is called under any of them, but for claims at once and
// the names for them, which wait for nothing ([storage.Immediate]).
package engine
