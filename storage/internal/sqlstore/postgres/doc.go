// Package postgres is a store on a Postgres server, version 13 or later, that several machines
// use, and the module `rate_limit.stores.postgres`.
package postgres
