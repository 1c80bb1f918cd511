// Package identity tells who a request is from, in terms that can be counted by
// and that name nobody at rest. It knows nothing of limits.
//
// What makes a client known is in packages of its own: a signed cookie in session,
// what earns one in challenge and siteverify, names that are good for a day in
// epoch, in reference what a refused client can ask about, and in pressure which networks
// too many different clients come from.
//
// # Invariants
//
//   - One client is one key, however its address is written: IPv4 addresses
//     mapped into IPv6 or translated are IPv4 addresses, and zone ids don't count.
//   - What leaves a process for a disk is a keyed hash: without the secret it
//     tells nothing about what was hashed.
//   - A secret is readable for its owner only, from the moment the file exists.
//   - What a client says of itself is bounded before it is looked at, and nothing
//     but a signature makes it more than something that was said.
package identity
