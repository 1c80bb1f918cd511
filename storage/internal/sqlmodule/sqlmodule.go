// Package sqlmodule has the common parts of the modules for stores on SQL servers.
package sqlmodule

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/sqlstore"
)

// Stores opens the stores of a module, all on one place, which remembers the batches of earlier stores
// whose outcome is unknown.
type Stores struct {
	mu   sync.Mutex
	open storage.Opener // guarded by mu: nil before the first use
}

// Open opens a store. It calls newOpener once, with the timeout of calls.
func (s *Stores) Open(ctx context.Context, timeout time.Duration, newOpener func(timeout time.Duration) (storage.Opener, error)) (storage.Store, error) {
	open, err := s.opener(max(2*timeout, sqlstore.DefaultTimeout), newOpener)
	if err != nil {
		return nil, err
	}
	return open(ctx)
}

func (s *Stores) opener(timeout time.Duration, newOpener func(timeout time.Duration) (storage.Opener, error)) (open storage.Opener, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open, err = newOpener(timeout)
	}
	return s.open, err
}

// fingerprints is the key of this process for fingerprints.
var fingerprints = func() (key [32]byte) {
	_, _ = rand.Read(key[:]) // never fails: see crypto/rand
	return key
}()

// Fingerprint returns a text that identifies a DSN in this process, and reveals nothing of it.
func Fingerprint(dsn string) string {
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
	seen := make(map[string]bool)
	for d.NextBlock(0) {
		if seen[d.Val()] {
			return d.Errf("store %s: %s is given twice", name, d.Val())
		}
		seen[d.Val()] = true
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
			return d.Errf("store %s: unrecognized option %q: expected %s", name, d.Val(), strings.Join(expected, " or "))
		}
	}
	return nil
}

// Examples are example configurations, by the names of the stores.
var Examples = map[string]string{
	"postgres": "store postgres postgres://tally:{env.TALLY_PASSWORD}@db.example.com/tally",
	"mysql":    "store mysql tally:{env.TALLY_PASSWORD}@tcp(db.example.com:3306)/tally",
}
