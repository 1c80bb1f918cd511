// Package reference makes the references of refusals: opaque texts that identify a refused request to holders of the
// secret, and reveal nothing to others. They aren't stored, so refused clients can't fill a table (decision 74).
//
// # Token
//
// 40 bytes, encoded as 64 characters in base32 with Crockford's alphabet, which has no ambiguous letters:
//
//	synthetic IV 12 | AES-256-CTR of: scope 4 | time 4 | reason 4 bits, nonce 28 bits | name 16
//
// The synthetic IV is HMAC-SHA-256 over the plaintext, truncated to 96 bits (the construction of RFC 5297, SIV, with
// other primitives). It serves as IV and authenticates the token, which saves space. Both keys are derived from the
// secret.
//
// # Invariants
//
//   - Two references with the same content, including the second, are equal with a probability of 2^-28; others
//     with one of 2^-96. Different references have nothing in common: without the secret nobody can tell
//     whether they belong to one client.
//   - A text that was not sealed under a current secret, or was changed, doesn't open.
//   - All references have the same length, and open in any of their spellings.
package reference
