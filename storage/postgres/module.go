// Package postgres registers the module `rate_limit.stores.postgres`, a store on a Postgres server
// that several machines share. To use it, build Caddy with this package.
package postgres

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/caddy-tally/caddy-tally/internal/dsn"
	"github.com/caddy-tally/caddy-tally/internal/grammar"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/postgres/internal/store"
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

	dsn     string
	config  *pgconn.Config // of dsn
	address string

	mu    sync.Mutex
	place *store.Place // guarded by mu: nil before the first use
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
	if err := store.CheckPrefix(s.Prefix); err != nil {
		return fmt.Errorf("prefix: %w", err)
	}
	if s.dsn, err = s.expand(); err != nil {
		return err
	}
	config, err := pgconn.ParseConfig(s.dsn)
	if err != nil || dsn.IsSplit(s.dsn, dsn.Address(config)) {
		return dsn.Unreadable(err, example)
	}
	s.config, s.address = config, dsn.Address(config)
	return nil
}

func (s *Store) expand() (string, error) { return dsn.Expand(s.DSN, dsn.Postgres) }

const example = "store postgres postgres://tally:{env.TALLY_PASSWORD}@db.example.com/tally"

// Address implements stores.Network.
func (s *Store) Address() string { return s.address }

// Plain implements stores.Network.
func (s *Store) Plain() (addresses []string, fix string) {
	if s.config.TLSConfig != nil {
		return nil, ""
	}
	return []string{net.JoinHostPort(s.config.Host, strconv.Itoa(int(s.config.Port)))},
		"sslmode=verify-full in the place of sslmode=disable"
}

// Counts implements stores.Store.
func (s *Store) Counts() string { return "postgres " + s.address + " " + s.Prefix }

// Identity implements stores.Store.
func (s *Store) Identity() string {
	return fmt.Sprintf("postgres %s prefix=%s dsn=%x durable=%t", s.address, s.Prefix, dsn.Fingerprint(s.dsn), s.Durable)
}

// Open implements stores.Store. All stores are on one place, which remembers the batches of earlier stores whose
// outcome is unknown.
func (s *Store) Open(ctx context.Context, timeout time.Duration) (storage.Store, error) {
	return s.placeFor(max(2*timeout, time.Second)).Open(ctx)
}

func (s *Store) placeFor(timeout time.Duration) *store.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.place == nil {
		s.place = store.NewPlace(store.Options{Config: s.config, Reread: s.expand, Prefix: s.Prefix, Durable: s.Durable,
			Timeout: timeout})
	}
	return s.place
}

// UnmarshalCaddyfile sets up the store from Caddyfile tokens. Syntax:
//
//	postgres <dsn> {
//		prefix <prefix>
//		durable
//	}
func (s *Store) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the store
	options := grammar.Block{Rules: func() grammar.Rules {
		return grammar.Rules{grammar.Line("prefix <prefix>", &s.Prefix), grammar.Line("durable", &s.Durable)}
	}}
	if err := grammar.Line("postgres <dsn>", &s.DSN).With(options).Read(d); err != nil {
		return fmt.Errorf("store %w", err)
	}
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Store)(nil)
	_ caddyfile.Unmarshaler = (*Store)(nil)
)
