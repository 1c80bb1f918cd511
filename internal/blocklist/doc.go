// Package blocklist keeps lists of addresses that others publish, such as Spamhaus DROP, and bans
// them.
//
// A [List] is a file or a URL. It is read again on a schedule, on a goroutine of its own that ends
// with the list. Configs with equal [Options] share one, so that a reload fetches nothing.
//
// # Invariants
//
//   - A list only bans, and bans no private, loopback or otherwise special address, and no network
//     that is a large part of the internet.
//   - The last good version stays in force until there is a better one. That of a URL is also kept on
//     disk, and is in force from the first request after a restart.
//   - A list has at most maxEntries entries in maxSize bytes.
package blocklist
