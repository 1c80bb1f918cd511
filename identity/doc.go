// Package identity has the means to tell clients apart: networks, fingerprints of browsers,
// cookies, the tags of keys, the secret, and the hash of a key. It knows nothing of limits.
//
// The rules that put these together are in package identity/client. Each way of telling
// clients apart has a package of its own: apikeys, and session with a signed cookie, which
// challenge and siteverify let a browser earn. Package atrest hashes keys for a disk, those
// of addresses under the daily keys of package epoch. Package reference has what a refused
// client can ask about, and pressure finds networks that too many different clients come
// from.
//
// # Invariants
//
//   - One client is one key, however its address is written: IPv4 addresses that are
//     mapped into IPv6 or translated are IPv4 addresses, and zone IDs don't count.
//   - Whatever leaves a process for a disk is a keyed hash: without the secret, nobody can
//     tell what was hashed.
//   - Only the owner can read a secret, from the moment its file exists.
//   - What a client says of itself is cut to a bounded size before it is used, and only a
//     signature proves any of it.
package identity
