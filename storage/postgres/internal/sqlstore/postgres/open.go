package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/postgres/internal/sqlstore"
)

// Opener returns an opener of stores on a server. With durable, each commit waits for the server's disk. Opener
// connects to nothing.
func Opener(o sqlstore.Options, durable bool) (storage.Opener, error) {
	config, err := pgconn.ParseConfig(o.DSN)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	place, err := sqlstore.NewPlace(driver(func() (*pgconn.Config, error) { return reread(o, config) }, durable), o)
	if err != nil {
		return nil, err
	}
	return place.Open, nil
}

// reread returns the configuration for a new connection.
func reread(o sqlstore.Options, config *pgconn.Config) (*pgconn.Config, error) {
	dsn, err := o.Current()
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
