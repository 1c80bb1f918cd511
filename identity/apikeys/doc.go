// Package apikeys tells which client an API key belongs to. Keys are made here,
// shown once, and kept as hashes in a text file that people can read and edit:
//
//	# name  tier  hash
//	salt 0f5c…
//	acme             researcher  9a41…
//	vendor/product   vendor      77e0… until 2026-12-01
//
// A hash is the HMAC-SHA-256 of a key under the file's salt, in hexadecimal. A
// key with an end is in force until then: a date means its first moment in UTC. A
// name is a client, and the text after a `/` a part of it that is counted on
// its own. A name may have several keys of one tier, which are counted as one, so
// that a key can be replaced while the old one is still in use.
//
// # Invariants
//
//   - No key is kept, in memory or on disk, only its hash.
//   - A file is taken as a whole or not at all: one bad line leaves the keys in
//     force that were.
//   - A file is replaced as a whole, by one command at a time, and is readable for
//     its owner only.
package apikeys
