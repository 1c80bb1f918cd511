// Package reference makes the references of refusals: opaque texts that say to whoever has
// the secret which request was refused, and nothing to others. They aren't stored.
//
// # Token
//
// 40 bytes, written as 64 characters in base32 with Crockford's alphabet, which has no
// letters that are taken for others:
//
//	synthetic IV 12 | AES-256-CTR of: scope 4 | time 4 | reason 4 bits, nonce 28 bits | name 16
//
// The synthetic IV is HMAC-SHA-256 over the plaintext, truncated to 96 bits (the
// construction of RFC 5297, SIV, from other parts). It is both the IV and what
// authenticates the token, so that neither costs room of its own. The keys of both are
// derived from the secret.
//
// # Invariants
//
//   - Two references are equal with a chance of one in 2^28 only if everything in them is,
//     the second included, and else of one in 2^96. Otherwise they have nothing in common:
//     without the secret nobody can say whether they are of one client.
//   - What was not sealed under a secret in use, or was changed since, does not open.
//   - All references have one length, and a refusal can be read from any of its spellings.
package reference
