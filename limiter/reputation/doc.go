// Package reputation is the arithmetic of client scores: pure functions of the record of a client,
// a violation and the time. It knows no lock, clock, I/O or limit.
//
// # Words
//
// A [Record] is the history of one client. Its score is 100 for a client without violations. A
// [Violation] takes points away, and they come back exponentially, half of the missing points every
// [HalfLife]. The score lies in one of four levels, and a [Level] determines the share of a limit
// that a client may have. A client with too many violations in too short a time is banned for a
// while, by a [Ban].
//
// # Invariants
//
//   - A score lies between 0 and 100, regardless of the source of the record.
//   - Without violations a score never falls, and a level never gets worse.
//   - A level gets better only when the score is [Margin] above its floor.
//   - From the time of [Record.Expires] on a record has no effect: its level is [Low], it is not
//     banned, and the next ban is not counted as a repeat.
//   - A clock that steps back makes no score better and no ban longer.
package reputation
