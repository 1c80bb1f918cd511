// Package postgres is the dialect of Postgres, version 13 or later.
package postgres
