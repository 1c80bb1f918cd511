// Package session makes and verifies the tokens by which a client is known again:
// it has earned one, and carries it in a cookie.
//
// # Token
//
// 69 bytes in base64url, 92 characters:
//
//	version 1 | key 4 | issued 4 | expires 4 | id 16 | origin 8 | HMAC-SHA-256 32
//
// Times are Unix seconds (up to the year 2106), origin is a keyed hash of the
// network that the token was issued to, and the HMAC is over all that is before
// it, the site and the name of the cookie.
//
// # Invariants
//
//   - Nothing of a token is believed, looked up or acted on before its HMAC holds,
//     except which key that is made under. There is no algorithm to choose.
//   - There is one way to write a token: what differs in a bit or in its length
//     is refused.
//   - A token tells nobody an address, and nothing about a person but that they
//     have been here.
//   - Nothing is stored: what is verified is in the token.
package session
