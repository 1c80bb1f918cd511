// Package accesslog reads access logs: which request came when, from whom, and how it was
// answered. It reads the JSON that Caddy writes, lines as nginx, Apache and Traefik write
// them, and whatever a format string of nginx describes.
//
// A log is written by clients, too: they choose paths, header fields and names. So nothing
// in a log may make a parser panic, run long or hold much memory, and what is quoted of a
// line that can't be read is quoted with its control characters escaped.
//
// # Invariants
//
//   - A line is at most [MaxLine] bytes. The rest of a longer one is skipped, and it counts as
//     one that can't be read.
//   - Records come in the order in which requests arrived, as far as that lies within what a
//     [Merger] holds at a time.
//   - A [Record] holds nothing of the line that it was read from.
package accesslog
