// Package mysql registers the module `rate_limit.stores.mysql`, a store on a MySQL or MariaDB server
// that several machines share. To use it, build Caddy with this package.
package mysql

import (
	"context"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	driver "github.com/go-sql-driver/mysql"

	"github.com/caddy-tally/caddy-tally/internal/dsn"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlmodule"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore"
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

	dsn     string // without placeholders
	address string

	stores sqlmodule.Stores
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
func (s *Store) Provision(caddy.Context) (err error) {
	if err := sqlstore.CheckPrefix(s.Prefix); err != nil {
		return fmt.Errorf("prefix: %w", err)
	}
	if s.dsn, err = s.expand(); err != nil {
		return err
	}
	config, err := driver.ParseDSN(s.dsn)
	if err != nil {
		return errUnreadable
	}
	s.address = config.Addr + "/" + config.DBName
	return nil
}

func (s *Store) expand() (string, error) { return dsn.Expand(s.DSN, dsn.AsItIs) }

// errUnreadable is the only error about an unreadable DSN, because the driver's errors may show a password with special
// characters.
var errUnreadable = fmt.Errorf("dsn: it can't be read; write it as in %s", sqlmodule.Examples["mysql"])

// Counts implements stores.Store.
func (s *Store) Counts() string { return "mysql " + s.address + " " + s.Prefix }

// Identity implements stores.Store.
func (s *Store) Identity() string {
	return fmt.Sprintf("mysql %s prefix=%s dsn=%s", s.address, s.Prefix, sqlmodule.Fingerprint(s.dsn))
}

// Address implements stores.Network.
func (s *Store) Address() string { return s.address }

// Open implements stores.Store.
func (s *Store) Open(ctx context.Context, timeout time.Duration) (storage.Store, error) {
	return s.stores.Open(ctx, timeout, func(timeout time.Duration) (storage.Opener, error) {
		open, err := mysql.Opener(mysql.Options{DSN: s.dsn, Reread: s.expand, Options: sqlstore.Options{Prefix: s.Prefix, Timeout: timeout}})
		if err != nil {
			return nil, errUnreadable
		}
		return open, nil
	})
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
