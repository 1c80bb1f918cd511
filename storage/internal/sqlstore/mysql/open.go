package mysql

import (
	"context"
	"errors"
	"fmt"

	driverof "github.com/go-sql-driver/mysql"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore"
)

// Opener returns an opener of stores on a server. It connects to nothing.
func Opener(o sqlstore.Options) (storage.Opener, error) {
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
	err = config.Apply(driverof.BeforeConnect(func(_ context.Context, config *driverof.Config) error { return reread(o, config) }))
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	connector, err := driverof.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	place, err := sqlstore.NewPlace(dialect(connector), o)
	if err != nil {
		return nil, err
	}
	return place.Open, nil
}

// reread sets user and password of a configuration for a new connection.
func reread(o sqlstore.Options, config *driverof.Config) error {
	dsn, err := o.Current()
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
