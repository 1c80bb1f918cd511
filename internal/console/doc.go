// Package console has the operators' commands for the terminal: caddy rate-limit status, ban,
// explain and so on. They use [operator.Service], and know nothing of Caddy.
//
// # Invariants
//
//   - No client's text reaches the terminal unescaped: unprintable characters are escaped, in JSON
//     too.
//   - With --json a command prints JSON and nothing else to its output.
//   - A command that finds nothing says so, and exits with status 1.
package console
