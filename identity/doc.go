// Package identity tells who a request is from, in terms that can be counted by
// and that name nobody at rest. It knows nothing of limits.
//
// # Invariants
//
//   - One client is one key, however its address is written: IPv4 addresses
//     mapped into IPv6 are IPv4 addresses, and zone ids don't count.
//   - What leaves a process for a disk is a keyed hash: without the secret it
//     tells nothing about what was hashed.
//   - A secret is readable for its owner only, from the moment the file exists.
package identity
