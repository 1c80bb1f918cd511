// Package client identifies the client that sent a request: by its API key, else by its session, else by its
// fingerprint, else by its network. It takes plain values, and returns keys to count by. It knows nothing of
// HTTP, limits or disks.
//
// # Invariants
//
//   - A client has one key. Keys of different kinds are never equal: see the tags in package identity.
//   - Violations are never recorded for an address that a client may have chosen itself.
//   - Violations of requests that another site made a browser send are never recorded for the browser's
//     user.
//   - Identifying a client allocates nothing, except for long names of API keys.
//
// To identify clients in another way, add a function to ways, and its input to [Evidence].
package client
