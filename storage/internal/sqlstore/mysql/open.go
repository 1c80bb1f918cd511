package mysql

import (
	"context"
	"errors"
	"fmt"

	driverof "github.com/go-sql-driver/mysql"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore"
)

// Options say where a store is.
type Options struct {
	// DSN says how to connect to the server, as the driver reads it. Required.
	DSN string
	// Reread returns the DSN for each new connection, whose password may have changed. Only user
	// and password of it are used. Default: DSN.
	Reread func() (string, error)

	sqlstore.Options
}

// Opener returns what opens stores on a server. It connects to nothing.
func Opener(o Options) (storage.Opener, error) {
	config, err := driverof.ParseDSN(o.DSN)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	config.MultiStatements = true
	if config.Params == nil {
		config.Params = make(map[string]string)
	}
	config.Params["autocommit"] = "1" // a server may begin sessions without it
	config.Logger = &driverof.NopLogger{}
	if o.Reread != nil {
		if err := config.Apply(driverof.BeforeConnect(o.reread)); err != nil {
			return nil, fmt.Errorf("mysql: %w", err)
		}
	}
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

// reread sets user and password of a configuration for a new connection.
func (o Options) reread(_ context.Context, config *driverof.Config) error {
	dsn, err := o.Reread()
	if err != nil {
		return err
	}
	changed, err := driverof.ParseDSN(dsn)
	if err != nil {
		return errors.New("mysql: the DSN can't be read any more: a placeholder has another value")
	}
	config.User, config.Passwd = changed.User, changed.Passwd
	return nil
}
