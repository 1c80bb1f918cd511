// Package console has the commands with which operators see and steer a rate limiter in a
// terminal: caddy rate-limit status, ban, explain and so on. They are written against
// [operator.Service], and know nothing of Caddy.
//
// # Invariants
//
//   - Nothing that a client has chosen reaches the terminal as it is: what isn't printable is
//     escaped, in JSON too.
//   - With --json a command prints JSON and nothing else to its output.
//   - A command that finds nothing says so, and exits with status 1.
package console
