package postgres

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore"
)

// Options say where a store is, and how it keeps what it keeps.
type Options struct {
	// DSN says how to connect to the server, as a URL or as pairs of keyword and value.
	// Required.
	DSN string
	// Durable has each commit wait for the server's disk.
	Durable bool

	sqlstore.Options
}

// Opener returns what opens stores on a server. It connects to nothing.
func Opener(o Options) (storage.Opener, error) {
	config, err := pgconn.ParseConfig(o.DSN)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	place, err := sqlstore.NewPlace(dialect(config, o.Durable), o.Options)
	if err != nil {
		return nil, err
	}
	return place.Open, nil
}
