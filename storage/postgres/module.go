// Package postgres registers the module `rate_limit.stores.postgres`, a store on a Postgres server
// that several machines share. To use it, build Caddy with this package.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/caddy-tally/caddy-tally/internal/dsn"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlmodule"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore/postgres"
)

// Store keeps the counts on a Postgres server, version 13 or later, that several machines share.
// They need the same `secret_file`. The tables are made if there are none.
type Store struct {
	// How to connect to the server: a URL, `postgres://user:password@host:5432/database`, or
	// pairs of keyword and value, as libpq reads them. TLS and several hosts are configured
	// in it, too: `sslmode=verify-full`, `target_session_attrs=read-write`. Placeholders such
	// as `{env.TALLY_DSN}` and `{file./run/secrets/dsn}` are replaced. Required.
	DSN string `json:"dsn"`

	// What the names of the tables begin with, after a schema and a dot if need be.
	// Default: `tally_`.
	Prefix string `json:"prefix,omitempty"`

	// Whether each commit waits for the server's disk. If not, a server that crashes may lose
	// the last 0.6 seconds; machines notice that, and charge again what they know.
	// Default: false.
	Durable bool `json:"durable,omitempty"`

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
		ID:  "rate_limit.stores.postgres",
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
	config, err := pgconn.ParseConfig(s.dsn)
	if err != nil {
		return unreadable(err)
	}
	if s.address = addressOf(config); isSplit(s.dsn, s.address) {
		s.address = ""
		return unreadable(nil)
	}
	return nil
}

// isSplit reports whether a DSN seems to have a password with an unescaped @ or slash, so that a part of the password
// is taken for the host or the database.
func isSplit(dsn, address string) bool {
	hosts, _, _ := strings.Cut(address, "/")
	_, place, isURL := strings.Cut(dsn, "://")
	place, _, _ = strings.Cut(place, "?")
	_, database, _ := strings.Cut(place, "/")
	return strings.Contains(hosts, "@") || isURL && strings.Contains(database, "@")
}

func (s *Store) expand() (string, error) { return dsn.Expand(s.DSN, dsn.Postgres) }

// unreadable returns an error about a DSN. The driver's errors may show a password with special characters, so only
// those about files are passed on.
func unreadable(err error) error {
	if file := (*fs.PathError)(nil); errors.As(err, &file) {
		return fmt.Errorf("dsn: %w", file)
	}
	return fmt.Errorf("dsn: it can't be read; write it as in %s, and special characters of the password as in %%40 for @", sqlmodule.Examples["postgres"])
}

// addressOf returns the hosts and the database, without user and password.
func addressOf(config *pgconn.Config) string {
	var hosts []string
	add := func(host string, port uint16) {
		address := net.JoinHostPort(host, strconv.Itoa(int(port)))
		if len(hosts) == 0 || hosts[len(hosts)-1] != address { // the list has each host with and without TLS
			hosts = append(hosts, address)
		}
	}
	add(config.Host, config.Port)
	for _, f := range config.Fallbacks {
		add(f.Host, f.Port)
	}
	return strings.Join(hosts, ",") + "/" + config.Database
}

// Counts implements stores.Store.
func (s *Store) Counts() string { return "postgres " + s.address + " " + s.Prefix }

// Identity implements stores.Store.
func (s *Store) Identity() string {
	return fmt.Sprintf("postgres %s prefix=%s durable=%t dsn=%s", s.address, s.Prefix, s.Durable, sqlmodule.Fingerprint(s.dsn))
}

// Address implements stores.Network.
func (s *Store) Address() string { return s.address }

// Open implements stores.Store.
func (s *Store) Open(ctx context.Context, timeout time.Duration) (storage.Store, error) {
	return s.stores.Open(ctx, timeout, func(timeout time.Duration) (storage.Opener, error) {
		open, err := postgres.Opener(postgres.Options{DSN: s.dsn, Reread: s.expand, Durable: s.Durable, Options: sqlstore.Options{Prefix: s.Prefix, Timeout: timeout}})
		if err != nil {
			return nil, unreadable(err)
		}
		return open, nil
	})
}

// UnmarshalCaddyfile sets up the store from Caddyfile tokens. Syntax:
//
//	postgres <dsn> {
//		prefix  <prefix>
//		durable
//	}
func (s *Store) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return sqlmodule.Unmarshal(d, &s.DSN, &s.Prefix, map[string]*bool{"durable": &s.Durable})
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Store)(nil)
	_ caddyfile.Unmarshaler = (*Store)(nil)
)
