// Package postgres is an exchange between regions in tables of a Postgres server, and the Caddy
// module `rate_limit.exchanges.postgres`. A Caddy that has it is built with
//
//	xcaddy build --with github.com/caddy-tally/caddy-tally --with github.com/caddy-tally/caddy-tally/storage/exchange/postgres
//
// # Tables
//
// tally_exchange_counts has a row for each count of a machine, tally_exchange_bans one for each
// banned client, tally_exchange_members one for each machine, and tally_exchange_meta a single one
// with the version of the tables and a number by which an exchange is told from another one. All
// are made by the first who opens the exchange, in the first schema of its search path.
//
// # Sequence
//
// Changes are numbered by a sequence. Numbers are only taken under an advisory lock that is held
// until the transaction has been committed, so a number that is visible comes before all that are
// not. It is a lock of transactions, so PgBouncer may hand connections on after each.
//
// # Writing
//
// Rows are written in the order of their keys, in one statement, and only if they are larger than
// what is there. So a call may be repeated when it is unknown whether it took effect.
package postgres
