// Package tally is a rate limiter for Caddy: the HTTP handler `rate_limit`
// (http.handlers.rate_limit), the app of the same name with the global options, and the
// modules that come with them.
//
// This package registers them, with the subcommands and the pages of the admin API. The options, the
// grammar of a Caddyfile and the checks are in package config, which compiles a config into what runs:
// package internal/enforce takes values out of a request, asks identity/client for the client and
// limiter/engine for the decision, and writes the answer.
// A store keeps the counts: storage/sqlite in a file, storage/memory in none. An instance, of
// internal/instance, is the engine on a store with all that outlives a config.
//
// A config that is only looked at, or that is rejected, opens, makes and changes nothing:
// the store opens when the whole config has started.
//
// # Glossary
//
//   - zone: a class of requests, and what it is counted per
//   - limit: an amount of units in a window
//   - key: what a zone counts by; its first byte, the tag, tells its kind
//   - pending: of a request that is let through it is not known yet whether it uses up units;
//     settled: it is
//   - held: charged when the request comes, and given back if it doesn't count
//   - unit: what is counted; a request costs 1 unless a zone says otherwise
//   - evaluation: one request on its way to a decision
//   - debit: what a request takes from one limit.
//   - statement: a ban or an allowance by an operator, a line of a file
//   - decision: all debits are charged, or none
//   - client: who a request is from; subject: the client, or the part of it, whose record
//     of violations counts
//   - network: the addresses that are one client's, a /32 or a /64 by default
//   - anonymous: a client without an API key; verified: one that can't choose who it is
//   - claimed address: one that the client may have written itself
//   - claim: units that the engine asks the store for; grant: what the store gives;
//     lease: granted units that memory may spend
//   - slot: a part of a window that is counted by itself
//   - blocked: refused until a known time, remembered in memory
//   - banned: refused for violations, remembered on disk, or by a statement
//   - shadow: a shadow limit counts as if it was enforced, and refuses nothing
//   - degraded: the store can't be used, and memory decides with reduced limits
//   - instance: an engine with its store and secrets, shared by configs across reloads
package tally
