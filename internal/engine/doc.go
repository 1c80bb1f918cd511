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
// A debit may have a penalty (penalty.go): once its limit refuses the key, the key's record says until when it stays
// refused. The record is kept, read and told to other machines as those of clients are, under the key's name.
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
// Further invariants are documented at the types committer, writer, leases, eraser, cell, blocks and headroom, and
// in package table.
//
// # Goroutines
//
// New starts three: the committer (committer.go), which owns the store, the janitor (janitor.go),
// which sweeps it, and the poller (poller.go), which asks it for news and writes notes. Close stops
// them and waits for them, and for the goroutines of shadow decisions that wait for the store
// (shadow.go), at most maxShadows. Timers of the committer run on their own goroutines: they report
// an outage, and end the time that decisions wait for the store to be opened.
//
// # Rooms
//
// The time is package clock, and keys are found in package table. The files of this package are in rooms: the
// word behind a file's package clause is its room. A line touches the fields of structs that its own room
// declares. It touches those of another room's struct if this list says so, and those of exported ones and of
// Engine, cell, request, held, batch and entry, which all rooms hand on. Everything else takes a method
// (decision 173).
//
//	engine     starts and stops the rest, and cleans up: engine.go, options.go, janitor.go
//	  janitor      leases operators
//	cells      what memory holds of a key: its body, blocks, limit and client, and which keys stay: cell.go
//	  block        decision leases operators
//	  body         decision leases store fleet operators
//	  bucketBody   leases
//	  busy         engine decision leases store outage operators
//	  cells        decision store operators
//	  clientState  engine decision store operators
//	  knowledge    decision leases store fleet operators
//	  slotBody     leases
//	decision   all or none of the debits of a request, pending debits, violations: decide.go
//	  holds        leases
//	leases     how many units a key gets, renewals, and how units come back: lease.go, renew.go, deliver.go
//	  headroom     store
//	  leases       engine store
//	store      claims in batches, in the time of the store; one of this machine is asked at once: committer.go, atonce.go
//	  atOnce       decision
//	  committer    engine decision leases fleet outage operators
//	  connection   fleet outage operators
//	  offense      decision
//	  opened       fleet outage operators
//	  queue        leases operators
//	  task         fleet
//	  writer       decision operators
//	fleet      a store on a network: its calls, news and notes: network.go, poller.go
//	  poller       store outage
//	outage     decides without the store, and charges it afterwards: outage.go, recovery.go, local.go
//	  local        cells decision store operators
//	  losses       operators
//	  outage       operators
//	operators  lists, resets, charges and forecasts: keys.go, reset.go, charge.go, forecast.go
//	  eraser       store
//
// # Locks
//
// A goroutine that holds a lock takes only locks further to the right:
//
//   - the lock of a shard; those of cells, in the order of limit and key; queue.mu; those of numbers and of limits;
//   - clientState.mu; offenses.mu.
//
// Under others it takes none. The lock of a cell guards its body and rare fields. No store, observer or other
// callback is called under any lock, except claims at once of a store that isn't on a disk, and the names for
// them, which never wait ([storage.Local]).
package engine
