// Package reputation is the arithmetic of how clients stand: pure functions of
// what is known of a client, a violation and the time. It knows no lock, clock,
// I/O or limit.
//
// # Words
//
// A [Record] is what is known of one client. Its score is 100 for a client of
// which nothing bad is known, a [Violation] takes points away, and they come
// back exponentially, half of what is missing every [HalfLife]. The score lies
// in one of four levels, and a [Level] says what share of a limit a client may
// have. A client with too many violations in too short a time is banned for a
// while, by a [Ban].
//
// # Invariants
//
//   - A score lies between 0 and 100, whatever the record was read from.
//   - Without violations a score never falls, and a level never gets worse.
//   - A level gets better only when the score is [Margin] above its floor.
//   - A record that [Record.Expires] at t says nothing from t on: its level is
//     [Low], it is not banned, and the next ban is not counted as a repeat.
//   - A clock that steps back makes no score better and no ban longer.
package reputation
