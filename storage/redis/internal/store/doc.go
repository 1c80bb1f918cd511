// Package store keeps counts on a server that speaks the protocol of Redis, for several machines.
//
// # Invariants
//
//   - Every call is one script, so one transaction, on one server: all keys of a place have one
//     hash tag.
//   - A call that writes has a number, kept with its answer in the record of the machine, in the
//     same script. Sent again, it is answered and does nothing. So a call takes effect exactly
//     once, however often the connection is cut.
//   - A script that fails may have done a part. Such a call, and one of which a copy may still be on
//     its way, has an unknown outcome.
//   - A call of a machine that has no record, or whose number doesn't follow the last one, does
//     nothing. Such a machine was fenced, or writes were lost: see [storage.ErrLostWrites]. The
//     record of a store that is closed is read and removed when the next one is opened.
//   - Scripts decide as limiter does. They count in slots that Go has computed, in whole
//     microseconds, and in limbs where doubles wouldn't be exact.
//   - A call is decided as of a moment at which it was under way, in the server's time and an
//     offset that is kept beside it. That time never runs backwards, and goes on evenly when
//     somebody sets the server's clock while machines use it. If it was set ahead, the server may
//     have dropped what still counts: the place gets another id, so all machines see lost writes.
//
// # What is kept
//
// With {tally} for the prefix: {tally}:meta is the place, {tally}:m:… the machines, {tally}:c:… the
// states of keys, {tally}:s:… the records of clients, {tally}:changes the last clients whose records
// were changed, {tally}:resets and {tally}:resetids the notes of resets, {tally}:processes who is
// there, {tally}:acts the audit, {tally}:values what machines share, {tally}:notes the notes by name,
// {tally}:notenumbers their numbers and {tally}:noteends the milliseconds at which they end.
package store
