// Package apikeys finds the client of an API key. It makes keys, which are shown once, and keeps their hashes in a text
// file that people can read and edit:
//
//	# name  tier  hash
//	salt 0f5c…
//	acme             researcher  9a41…
//	vendor/product   vendor      77e0… until 2026-12-01
//
// A hash is the HMAC-SHA-256 of a key under the file's salt, in hexadecimal. A key with an end is valid until then; a
// date means its first moment in UTC. A name is a client, and the text after a `/` is a part of it that is counted on
// its own. A name may have several keys of one tier, which are counted together, so that a key can be replaced while
// the old one is still in use.
//
// # Invariants
//
//   - Keys are not kept, in memory or on disk, only their hashes.
//   - A file is used as a whole or not at all: with one bad line, the previous keys stay in force.
//   - A file is replaced as a whole, by one command at a time, and only its owner can read it.
package apikeys
