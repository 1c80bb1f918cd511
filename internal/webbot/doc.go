// Package webbot verifies requests that bots sign: HTTP Message Signatures (RFC 9421) by Ed25519 keys
// of a local file, with the rules of Web Bot Auth (draft-ietf-webbotauth-httpsig-protocol).
//
// # Invariants
//
//   - In doubt a request isn't signed: a component or parameter that this package doesn't know makes
//     a signature invalid.
//   - Memory and work per request are bounded: see the constants of signature.go.
//   - No key is fetched, nothing is kept of a request. So a signed request can be sent again, by
//     whoever has seen it, until the signature expires.
package webbot
