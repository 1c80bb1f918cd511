package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/dsn"
	"github.com/caddy-tally/caddy-tally/internal/grammar"
	"github.com/caddy-tally/caddy-tally/storage/exchange"
)

// Exchange carries counts between regions in tables of a Postgres server.
type Exchange struct {
	// How to connect, for example
	// `postgres://tally:{env.PG_PASSWORD}@db.example.com:5432/tally?sslmode=verify-full`.
	// Placeholders such as `{env.NAME}` and `{file./path}` are replaced when the config is
	// loaded; user and password are read again for each new connection. The user must be able
	// to make tables, or find those that another one has made. Required.
	DSN string `json:"dsn,omitempty"`

	server server
}

func init() {
	caddy.RegisterModule(Exchange{})
}

// CaddyModule returns the Caddy module information.
func (Exchange) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "rate_limit.exchanges.postgres",
		New: func() caddy.Module { return new(Exchange) },
	}
}

// Provision checks the settings. It connects to nothing.
func (e *Exchange) Provision(caddy.Context) (err error) {
	if e.DSN == "" {
		return errors.New("dsn: is missing: expected " + example)
	}
	e.server, err = e.read()
	return err
}

// read reads the address, with the values that its placeholders have now.
func (e *Exchange) read() (server, error) {
	expanded, err := dsn.Expand(e.DSN, func(before, value, after string) (string, error) {
		if value == "" {
			return "", errors.New("is empty: set it where Caddy runs")
		}
		return dsn.Postgres(before, value, after)
	})
	if err != nil {
		return server{}, err
	}
	return parse(expanded)
}

// Identity says which exchange it is, without showing a password.
func (e *Exchange) Identity() string {
	return fmt.Sprintf("postgres %x", dsn.Fingerprint(e.server.dsn))
}

// Place returns the address of the server and the name of the database.
func (e *Exchange) Place() string { return e.server.place() }

// Open connects to the server, and makes the tables if there are none. User and password may have
// changed since Provision.
func (e *Exchange) Open(ctx context.Context) (exchange.Exchange, error) {
	now, err := e.read()
	if err != nil {
		return nil, err
	}
	return e.server.as(now.config.User, now.config.Password).open(ctx)
}

// UnmarshalCaddyfile sets up the exchange from Caddyfile tokens. Syntax:
//
//	postgres <dsn>
func (e *Exchange) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the exchange
	if err := grammar.Line("postgres <dsn>", &e.DSN).Read(d); err != nil {
		return fmt.Errorf("exchange %w", err)
	}
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Exchange)(nil)
	_ caddyfile.Unmarshaler = (*Exchange)(nil)
)
