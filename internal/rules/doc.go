// Package rules holds the operator's statements about clients: bans and allowances, one per
// line of a text file that people and commands write.
//
//	# Bans and allowances
//	ban 203.0.113.0/24 until 2026-12-01 # scraper
//	allow 203.0.113.7 # the office
//	allow api-key:acme until 2026-11-22T14:00:00Z # import of old orders
//	ban key:"user 17"
//	ban session:1f0c9a2b7d4e6f80
//
// A [Statement] is about a [Target]: an address or a network of them, the name of an API key,
// the text of a zone's key, or a session. A [Set] finds the statement in force for one of
// these. A [File] is read again when it has changed.
//
// # Which statement counts
//
// Among networks the longest prefix with a statement in force counts: `ban 10.1.2.3` holds in
// spite of `allow 10.0.0.0/8`, and the other way round. Of a ban and an allowance of one
// target, the allowance counts. Of several bans of one target, the one that ends last does.
// What is found about different targets of one request, such as its address and its API key,
// is for the caller to weigh.
//
// # Invariants
//
//   - A set doesn't change, and a lookup allocates nothing.
//   - What [Statement.String] returns is one line, which [Parse] reads as the same statement.
//   - A file has at most 1,000,000 statements, and a line at most 8192 bytes.
package rules
