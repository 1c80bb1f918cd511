// Package session makes and verifies tokens, by which returning clients are recognized. A client earns a token, and
// keeps it in a cookie.
//
// # Token
//
// 69 bytes in base64url, 92 characters:
//
//	version 1 | key 4 | issued 4 | expires 4 | id 16 | origin 8 | HMAC-SHA-256 32
//
// Times are Unix seconds (up to the year 2106). The origin is a keyed hash of the network to which the token was
// issued. The HMAC covers all fields before it, the site and the name of the cookie.
//
// # Invariants
//
//   - Before its HMAC is verified, no field of a token is used, except the ID of its key. There is no choice
//     of algorithms.
//   - A token has one form: a text that differs in a bit or in its length is refused.
//   - A token reveals no address, and nothing about a person except an earlier visit.
//   - Nothing is stored: all verified data is in the token.
package session
