// Package rules holds the operator's rules about clients: bans, allowances and raises, one per line of a
// text file that people and commands write.
//
//	# Bans and allowances
//	ban 203.0.113.0/24 until 2026-12-01 # scraper
//	allow 203.0.113.7 # the office
//	allow api-key:acme until 2026-11-22T14:00:00Z # import of old orders
//	ban key:"user 17"
//	ban session:1f0c9a2b7d4e6f80
//	ban asn:64496
//	raise 5x api-key:acme zone login until 2026-12-01
//
// A [Rule] is a rule about a [Target]: an address or a network of them, the name of an API
// key, the text of a zone's key, a session, or a country or an autonomous system of addresses. A [Set] finds the rule
// in force for one of these. A [File] is read again after it changes.
//
// # Precedence
//
// Among networks the longest prefix with a rule in force counts: `ban 10.1.2.3` applies in spite of
// `allow 10.0.0.0/8`, and the other way round. Of a ban and an allowance of one target, the
// allowance counts. Of several bans of one target, the one that ends last does. The caller decides
// between rules about different targets of one request, such as its address and its API key, by
// [Stronger] (decision 60).
//
// Raises are found apart, so they lift no ban and end no allowance. Those for the zone of a limit come
// before those for all zones. Of a raise above 1x and another of one target, the former counts (decision 162).
//
// # Invariants
//
//   - A set doesn't change, and a lookup allocates nothing.
//   - [Rule.String] returns one line, which [Parse] reads as the same rule.
//   - A file has at most 1,000,000 rules, and a line at most 8192 bytes.
package rules
