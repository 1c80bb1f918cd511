package postgres

import (
	"errors"
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
	// Reread returns the DSN for each new connection, whose password may have changed. Only user
	// and password of it are used. Default: DSN.
	Reread func() (string, error)
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
	place, err := sqlstore.NewPlace(dialect(o.current(config), o.Durable), o.Options)
	if err != nil {
		return nil, err
	}
	return place.Open, nil
}

// current returns the function that returns the configuration for a new connection.
func (o Options) current(config *pgconn.Config) func() (*pgconn.Config, error) {
	if o.Reread == nil {
		return func() (*pgconn.Config, error) { return config, nil }
	}
	return func() (*pgconn.Config, error) {
		dsn, err := o.Reread()
		if err != nil {
			return nil, err
		}
		changed, err := pgconn.ParseConfig(dsn)
		if err != nil {
			return nil, errors.New("postgres: the DSN can't be read any more: a placeholder has another value")
		}
		current := config.Copy()
		current.User, current.Password = changed.User, changed.Password
		return current, nil
	}
}
