// Package identity has the means to tell clients apart: networks, fingerprints of browsers, cookies, the tags
// of keys, the secret, and the hash of a key. It knows nothing of limits.
//
// Package client has the rules that combine them. Each way to identify a client has its own package: apikeys,
// and session with a signed cookie, which a browser earns with challenge or siteverify. Package atrest hashes
// keys for a disk, those of addresses under the daily keys of package epoch. Package reference makes the
// references of refusals, and package pressure finds networks with too many different clients.
//
// # Invariants
//
//   - A client has one key, however its address is written: IPv4 addresses that are mapped into IPv6 or
//     translated are IPv4 addresses, and zone IDs don't count.
//   - Keys leave a process for a disk only as keyed hashes, which reveal nothing without the secret.
//   - Only the owner can read a secret, from the moment its file exists.
//   - Values sent by a client are cut to a bounded size before use, and only a signature proves any of
//     them.
package identity
