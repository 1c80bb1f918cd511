// Package tally is a rate limiter for Caddy: the HTTP handler `rate_limit`
// (http.handlers.rate_limit), the app of the same name with the global options, and their modules.
//
// This package registers them, with the subcommands and the pages of the admin API. The options,
// the grammar of a Caddyfile and the checks are in package config, which compiles a config for
// package internal/enforce. That package takes values out of a request, asks identity/client for
// the client and internal/engine for the decision, and returns a verdict, by which internal/answer,
// internal/settle and internal/report answer, settle and report. A store keeps the counts:
// in a file, in memory, or on a server that machines share. An instance, of internal/instance, is
// the engine on a store with the other state that outlives a config. docs/architecture.md lists all
// packages.
//
// A config that is only validated, or that is rejected, opens, creates and changes nothing: the
// store opens when the whole config has started.
//
// # Glossary
//
//   - zone: a class of requests with their key and their limits
//   - limit: an amount of units in a window
//   - key: the value that a zone counts by; its first byte, the tag, tells its kind
//   - pending: a passing request whose use of units isn't known yet; it is settled when it is
//   - held: charged when the request arrives, and given back if it doesn't count
//   - unit: the unit of counting; a request costs 1 unless a zone says otherwise
//   - evaluation: one request on its way to a decision
//   - debit: the units that a request takes from one limit
//   - rule: a ban or an allowance of an operator or a block list; a line of
//     a file or a note in a store
//   - decision: all debits are charged, or none
//   - verdict: the decision about a request with its reasons
//   - client: the sender of a request (identity/client: what is known of it; enforce: as it is
//     evaluated; engine and storage: its record); subject: the client, or the part of it, whose
//     record of violations counts
//   - network: the addresses of one client, a /32 or a /64 by default
//   - anonymous: a client without an API key; verified: a client that can't choose its identity
//   - claimed address: an address that the client may have written itself
//   - claim: units that the engine requests from the store; lease: units that it was given, and may
//     spend from memory
//   - slot: a part of a window that is counted separately
//   - blocked: refused until a known time, remembered in memory
//   - banned: refused for violations, remembered on disk, or by a rule
//   - shadow: a shadow limit counts as if it were enforced, and refuses nothing
//   - degraded: the store can't be used, and memory decides with reduced limits
//   - instance: an engine with its store and secrets, shared by configs across reloads
package tally
