// Package tally is a rate limiter for Caddy: the HTTP handler `rate_limit`
// (http.handlers.rate_limit), the app of the same name that holds the global
// options, and the modules that come with them.
//
// The package is where Caddy and HTTP meet the rest of the module, and the only
// one that knows them. It takes from a request what clients are told apart by,
// has package identity say who the request is from, has package limiter/engine
// decide, and writes the answer. What is counted is kept by a store: storage/sqlite
// in a file, storage/memory in none.
//
// Config types, whose comments are their documentation:
//
//   - [Handler] has zones, and is what a route contains
//   - [Zone] is a class of requests with limits; [Limit] is one of them
//   - [App] has the global options, [Tier], [APIKeys], [Session], [Pressure],
//     [Reputation] and [Ban] among them
//   - [SQLiteStore] and [MemoryStore] say where counts are kept
//
// The Caddyfile is read in the files that begin with caddyfile. Nothing is opened,
// made or changed by a config that is only looked at, or that is rejected: the
// store opens when the whole config has started.
package tally
