// Package postgres connects to Postgres servers, version 13 or later.
package postgres
