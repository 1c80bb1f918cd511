// Package sqlmodule has the common parts of the modules for stores on SQL servers.
package sqlmodule

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore"
)

// Driver is what modules know of a kind of server.
type Driver struct {
	// Name is the name of the module.
	Name string
	// Address returns the servers and the database in a DSN, without user and password.
	Address func(dsn string) (string, error)
	// Opener returns an opener of stores. It connects to nothing.
	Opener func(sqlstore.Options) (storage.Opener, error)
	// Unreadable returns an error about a DSN in the place of those of the functions above, which may show a
	// password with special characters.
	Unreadable func(error) error
}

// Server is the server of a module, which embeds it: it implements stores.Network.
type Server struct {
	driver  Driver
	options sqlstore.Options
	address string

	mu   sync.Mutex
	open storage.Opener // guarded by mu: nil before the first use
}

// Use sets the server, and checks the settings. expand returns the DSN without placeholders. Use connects to nothing.
func (s *Server) Use(d Driver, prefix string, expand func() (string, error)) error {
	if err := sqlstore.CheckPrefix(prefix); err != nil {
		return fmt.Errorf("prefix: %w", err)
	}
	dsn, err := expand()
	if err != nil {
		return err
	}
	s.driver, s.options = d, sqlstore.Options{DSN: dsn, Reread: expand, Prefix: prefix}
	if s.address, err = d.Address(dsn); err != nil {
		return d.Unreadable(err)
	}
	return nil
}

// Address implements stores.Network.
func (s *Server) Address() string { return s.address }

// Counts implements stores.Store.
func (s *Server) Counts() string { return s.driver.Name + " " + s.address + " " + s.options.Prefix }

// Identity implements stores.Store.
func (s *Server) Identity() string {
	return fmt.Sprintf("%s %s prefix=%s dsn=%s", s.driver.Name, s.address, s.options.Prefix, fingerprint(s.options.DSN))
}

// Open implements stores.Store. All stores are on one place, which remembers the batches of earlier stores whose
// outcome is unknown.
func (s *Server) Open(ctx context.Context, timeout time.Duration) (storage.Store, error) {
	open, err := s.opener(max(2*timeout, sqlstore.DefaultTimeout))
	if err != nil {
		return nil, s.driver.Unreadable(err)
	}
	return open(ctx)
}

func (s *Server) opener(timeout time.Duration) (open storage.Opener, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.options.Timeout = timeout
		s.open, err = s.driver.Opener(s.options)
	}
	return s.open, err
}

// fingerprints is the key of this process for fingerprints.
var fingerprints = func() (key [32]byte) {
	_, _ = rand.Read(key[:]) // never fails: see crypto/rand
	return key
}()

// fingerprint returns a text that identifies a DSN in this process, and reveals nothing of it.
func fingerprint(dsn string) string {
	mac := hmac.New(sha256.New, fingerprints[:])
	mac.Write([]byte(dsn))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// Unmarshal reads `<name> <dsn> { prefix <prefix> … }` from a Caddyfile. flags are further options, which have no
// argument.
func Unmarshal(d *caddyfile.Dispenser, dsn, prefix *string, flags map[string]*bool) error {
	d.Next() // the name of the store
	name := d.Val()
	if !d.Args(dsn) {
		return d.Errf("store %s: expected how to connect to the server, as in %s", name, Examples[name])
	}
	if d.NextArg() {
		return d.Errf("store %s: expected one DSN: put quotes around one that has spaces", name) // the rest may be a password
	}
	err := caddyconf.EachOption(d, func(d *caddyfile.Dispenser) error {
		flag := flags[d.Val()]
		switch {
		case d.Val() == "prefix":
			if !d.AllArgs(prefix) {
				return d.ArgErr()
			}
		case flag != nil:
			if *flag = true; d.NextArg() {
				return d.ArgErr()
			}
		default:
			expected := slices.Concat([]string{"prefix"}, slices.Sorted(maps.Keys(flags)))
			return d.Errf("unrecognized option %q: expected %s", d.Val(), caddyconf.OrList(expected))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	return nil
}

// Examples are example configurations, by the names of the stores.
var Examples = map[string]string{
	"postgres": "store postgres postgres://tally:{env.TALLY_PASSWORD}@db.example.com/tally",
	"mysql":    "store mysql tally:{env.TALLY_PASSWORD}@tcp(db.example.com:3306)/tally",
}
