// Package postgres is an exchange between regions in tables of a Postgres server, and the Caddy
// module `rate_limit.exchanges.postgres`. A Caddy that has it is built with
//
//	xcaddy build --with github.com/caddy-tally/caddy-tally --with github.com/caddy-tally/caddy-tally/storage/exchange/postgres
//
// # Tables
//
// tally_exchange_counts has a row for each count of a machine, tally_exchange_bans one for each client that a region
// has banned or whose bans it has lifted, tally_exchange_members one for each machine, and tally_exchange_meta a single
// row with the version of the tables and a number that identifies the exchange. The first machine that opens the
// exchange creates them, in the first schema of its search path.
//
// # Sequence
//
// Changes are numbered by a sequence. Numbers are only taken under an advisory lock, which is held until the
// transaction is committed. So visible numbers precede all invisible ones. The lock is that of a transaction, so
// PgBouncer may reuse connections after each.
//
// # Writing
//
// Rows are written in the order of their keys, in one statement, and only if they are larger than the stored ones.
// So a call whose outcome is unknown can be repeated.
package postgres
