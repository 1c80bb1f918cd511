// Package client identifies the client that a request is from: by its API key, else by its
// session, else by its fingerprint, else by its network. It gets plain values, and gives
// back keys to count by. It knows nothing of HTTP, limits or disks.
//
// # Invariants
//
//   - One client has one key. Keys of different kinds never equal one another: see the tags
//     in package identity.
//   - Nothing is held against an address that a client may have chosen itself.
//   - What another site has a browser send is never held against the browser's user.
//   - Identifying a client allocates nothing, but for long names of API keys.
//
// To tell clients apart in another way, add a function to ways, and what it needs to
// [Evidence].
package client
