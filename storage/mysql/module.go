// Package mysql registers the module `rate_limit.stores.mysql`, a store on a MySQL or MariaDB server
// that several machines share. To use it, build Caddy with this package.
package mysql

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	driver "github.com/go-sql-driver/mysql"

	"github.com/caddy-tally/caddy-tally/internal/dsn"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlmodule"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore/mysql"
)

// Store keeps the counts on a server of MySQL 8 or later, or of MariaDB 10.6 or later, that several
// machines share. They need the same `secret_file`. The tables are made if there are none.
type Store struct {
	// How to connect to the server, as `user:password@tcp(host:3306)/database`, with options
	// such as `?tls=true` behind it. Placeholders such as `{env.TALLY_DSN}` and
	// `{file./run/secrets/dsn}` are replaced. Required.
	DSN string `json:"dsn"`

	// What the names of the tables begin with, after a database and a dot if need be.
	// Default: `tally_`.
	Prefix string `json:"prefix,omitempty"`

	sqlmodule.Server
}

func init() {
	caddy.RegisterModule(new(Store))
}

// CaddyModule returns the Caddy module information.
func (*Store) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "rate_limit.stores.mysql",
		New: func() caddy.Module { return new(Store) },
	}
}

// Provision checks the settings. It connects to nothing.
func (s *Store) Provision(caddy.Context) error {
	return s.Use(server, s.Prefix, func() (string, error) { return dsn.Expand(s.DSN, dsn.AsItIs) })
}

var server = sqlmodule.Driver{
	Name: "mysql",
	Address: func(dsn string) (string, error) {
		config, err := driver.ParseDSN(dsn)
		if err != nil {
			return "", err
		}
		return config.Addr + "/" + config.DBName, nil
	},
	Opener: mysql.Opener,
	Unreadable: func(error) error {
		return fmt.Errorf("dsn: it can't be read; write it as in %s", sqlmodule.Examples["mysql"])
	},
}

// UnmarshalCaddyfile sets up the store from Caddyfile tokens. Syntax:
//
//	mysql <dsn> {
//		prefix <prefix>
//	}
func (s *Store) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return sqlmodule.Unmarshal(d, &s.DSN, &s.Prefix, nil)
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Store)(nil)
	_ caddyfile.Unmarshaler = (*Store)(nil)
)
