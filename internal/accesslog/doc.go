// Package accesslog reads access logs: the time, the sender and the answer of each request. It
// reads the JSON that Caddy writes, lines in the formats of nginx, Apache and Traefik, and any
// format string of nginx.
//
// Clients influence logs, too: they choose paths, header fields and names. So no log may make a
// parser panic, run long or hold much memory, and quotes of unreadable lines have their control
// characters escaped.
//
// # Invariants
//
//   - A line is at most 1 MiB. The rest of a longer line is skipped, and it counts as
//     unreadable.
//   - Records come in the order in which requests arrived, as far as that lies within the records
//     that a [Merger] holds at a time.
//   - A [Record] keeps no reference to its line.
package accesslog
