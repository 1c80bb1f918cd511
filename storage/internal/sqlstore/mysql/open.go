package mysql

import (
	"fmt"

	driverof "github.com/go-sql-driver/mysql"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore"
)

// Options say where a store is.
type Options struct {
	// DSN says how to connect to the server, as the driver reads it. Required.
	DSN string

	sqlstore.Options
}

// Opener returns what opens stores on a server. It connects to nothing.
func Opener(o Options) (storage.Opener, error) {
	config, err := driverof.ParseDSN(o.DSN)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	config.MultiStatements = true
	config.Logger = &driverof.NopLogger{}
	connector, err := driverof.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	place, err := sqlstore.NewPlace(dialect(connector), o.Options)
	if err != nil {
		return nil, err
	}
	return place.Open, nil
}
