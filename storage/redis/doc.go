// Package redis keeps the counts of several Caddys on a server that speaks the protocol of Redis:
// Redis, Valkey, and others. Importing it registers the module `rate_limit.stores.redis`. Those who
// want it build Caddy with it:
//
//	xcaddy build --with github.com/caddy-tally/caddy-tally --with github.com/caddy-tally/caddy-tally/storage/redis
//
// This package is the configuration. The store is in internal/store.
package redis
