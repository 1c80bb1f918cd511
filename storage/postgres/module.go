// Package postgres registers the module `rate_limit.stores.postgres`, a store on a Postgres server
// that several machines share. To use it, build Caddy with this package.
package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"strings"

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

	sqlmodule.Server
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
func (s *Store) Provision(caddy.Context) error {
	return s.Use(sqlmodule.Driver{
		Name: "postgres", Address: addressOf, Unreadable: unreadable,
		Opener: func(o sqlstore.Options) (storage.Opener, error) { return postgres.Opener(o, s.Durable) },
	}, s.Prefix, s.expand)
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

// addressOf returns the hosts and the database of a DSN.
func addressOf(text string) (string, error) {
	config, err := pgconn.ParseConfig(text)
	if err != nil {
		return "", err
	}
	hosts := []string{addressWith(config.Host, config.Port)}
	for _, f := range config.Fallbacks {
		hosts = append(hosts, addressWith(f.Host, f.Port))
	}
	address := strings.Join(slices.Compact(hosts), ",") + "/" + config.Database // the list has each host with and without TLS
	if dsn.IsSplit(text, address) {
		return "", errSplit
	}
	return address, nil
}

func addressWith(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

var errSplit = errors.New("a part of the password is taken for the host or the database")

// Identity implements stores.Store.
func (s *Store) Identity() string {
	return fmt.Sprintf("%s durable=%t", s.Server.Identity(), s.Durable)
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
