// Package store keeps counts on a server that speaks the protocol of Redis, for several machines.
//
// # Invariants
//
//   - Every call is one script, and so one transaction, on one server: all keys of a place have the
//     same hash tag.
//   - A call that writes has a number. The script keeps it with its answer in the record of the
//     machine. If the call is sent again, the script returns that answer and does nothing. So a call
//     takes effect exactly once, however often the connection is cut.
//   - A script that fails may have stopped halfway. Such a call has an unknown outcome, and so has a
//     call of which a copy may still be on its way.
//   - A call does nothing if its machine has no record, or if its number doesn't follow the last
//     one. The machine was fenced, or writes were lost: see [storage.ErrLostWrites]. The next store
//     that is opened reads and removes the record of a closed one.
//   - Scripts decide as package limiter does. They count in slots that Go has computed, in whole
//     microseconds, and in limbs where doubles wouldn't be exact (decision 93).
//   - A call is decided as of a moment at which it was under way, in the server's time with an offset
//     that is stored beside it. That time never runs backwards, and advances evenly when the server's
//     clock is set while machines use it. If the clock was set ahead, the server may have dropped keys
//     that still count. The place then gets another id, so that all machines see lost writes.
//
// # Parts
//
// A part of a [Store] has the methods of the contract for one kind of data. Claims, records, resets, notes
// and news make their calls through the machine, which numbers them, knows the time and repeats them until
// they are answered. Acts, values and the processes present need no number, so they ask the server beside
// these calls. Only the machine knows that writes were lost, and no part knows another, except that claims
// read records in the same call.
//
// # Keys on the server
//
// With the prefix {tally}: {tally}:meta is the place, {tally}:m:… are the machines, {tally}:c:… the
// states of keys, {tally}:s:… the records of clients, {tally}:changes the clients whose records
// changed last, {tally}:resets and {tally}:resetids the resets, {tally}:processes the processes
// present, {tally}:acts the audit, {tally}:charges what applications charged, {tally}:values the values of the vault,
// {tally}:notes the notes by name, {tally}:notenumbers their numbers, and {tally}:noteends their ends in milliseconds.
package store
