package redis

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/redis/internal/store"
)

// Store keeps the counts on a server that speaks the protocol of Redis, for several machines
// together. They must have the same `secret_file`. Values may have placeholders such as
// `{env.REDIS_PASSWORD}` or `{file./run/secrets/redis}`, which are replaced when the config is
// loaded.
type Store struct {
	// Where the server is: `redis://host`, `redis://host:6379/0`, or `rediss://` for TLS. A user and
	// password may come before the host, as in `redis://user:password@host`. Several nodes of a
	// cluster are separated by commas. Required.
	URL string `json:"url,omitempty"`

	// The user, as the server's ACL has it. Default: the one in the URL, or none.
	Username string `json:"username,omitempty"`

	// The password. Default: the one in the URL, or none.
	Password string `json:"password,omitempty"`

	// What all keys begin with. It holds a hash tag, which is a part in braces, so that they are on
	// one node of a cluster. Stores with other prefixes count apart. Default: `{tally}`.
	Prefix string `json:"prefix,omitempty"`

	// How to encrypt, for `rediss://`. Default: as the system trusts servers.
	TLS *TLS `json:"tls,omitempty"`

	// Sentinels that know which server is the primary. Then the host in the URL is not used.
	Sentinel *Sentinel `json:"sentinel,omitempty"`

	options store.Options
	log     *zap.Logger
	once    sync.Once // makes open
	open    storage.Opener
}

// TLS says how to encrypt.
type TLS struct {
	// Files with the certificates of authorities that servers are trusted by, in PEM. Default:
	// those of the system.
	CA []string `json:"ca,omitempty"`

	// The name that the certificate of the server must have. Default: the host.
	ServerName string `json:"server_name,omitempty"`

	// A file with a certificate of this client, in PEM. Default: none.
	Certificate string `json:"certificate,omitempty"`

	// A file with the key of that certificate, in PEM.
	Key string `json:"key,omitempty"`
}

// Sentinel says which sentinels there are.
type Sentinel struct {
	// What they call the primary. Required.
	Master string `json:"master,omitempty"`

	// Where they are, as `host:26379`, at least one. Default of the port: 26379.
	Addresses []string `json:"addresses,omitempty"`

	// The user that they want. Default: none.
	Username string `json:"username,omitempty"`

	// The password that they want. Default: none.
	Password string `json:"password,omitempty"`
}

func init() {
	caddy.RegisterModule(new(Store))
}

// CaddyModule returns the Caddy module information.
func (*Store) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "rate_limit.stores.redis",
		New: func() caddy.Module { return new(Store) },
	}
}

// Provision checks the settings. It opens nothing.
func (s *Store) Provision(ctx caddy.Context) (err error) {
	s.log = ctx.Logger()
	s.options, err = s.toOptions(caddy.NewReplacer())
	s.options.Evicts = s.warn
	return err
}

// warn warns of a server that may remove counts.
func (s *Store) warn(policy string) {
	s.log.Warn("the server removes keys when its memory is full, so limits may let more through: set maxmemory-policy noeviction there",
		zap.String("store", s.Address()), zap.String("maxmemory_policy", policy))
}

var seed = maphash.MakeSeed()

// Counts implements stores.Store.
func (s *Store) Counts() string { return "redis " + s.Address() + " " + s.options.Prefix }

// Identity says which counts the store keeps, and how. Secrets are in it as a hash that only this
// process can make.
func (s *Store) Identity() string {
	o := &s.options
	secrets := maphash.Comparable(seed, [...]string{o.Username, o.Password, o.SentinelUsername, o.SentinelPassword})
	return fmt.Sprintf("redis %s/%d master=%s prefix=%s tls=%v secrets=%x", strings.Join(o.Addresses, ","), o.Database,
		o.Master, o.Prefix, s.TLS, secrets)
}

// Address says where the counts are, without user and password.
func (s *Store) Address() string {
	address := strings.Join(s.options.Addresses, ",")
	if s.options.Master != "" {
		address = s.options.Master + " by sentinels " + address
	}
	if s.options.Database != 0 {
		address = fmt.Sprintf("%s/%d", address, s.options.Database)
	}
	return address
}

// Plain implements stores.Network.
func (s *Store) Plain() (addresses []string, fix string) {
	if s.options.TLS != nil {
		return nil, ""
	}
	return s.options.Addresses, "rediss:// in the place of redis://"
}

// leastTimeout is how long a call of the store may take at least: requests don't wait for it that
// long, but it may still succeed.
const leastTimeout = time.Second

// Open opens the store.
func (s *Store) Open(ctx context.Context, timeout time.Duration) (storage.Store, error) {
	s.once.Do(func() {
		o := s.options
		o.Reread = s.reread
		o.Timeout = max(2*timeout, leastTimeout)
		s.open = store.Opener(o)
	})
	return s.open(ctx)
}

// reread returns the settings as their placeholders are now.
func (s *Store) reread() (store.Options, error) { return s.toOptions(caddy.NewReplacer()) }

// toOptions returns the settings with all placeholders replaced.
func (s *Store) toOptions(repl *caddy.Replacer) (o store.Options, err error) {
	if s.URL == "" {
		return o, errors.New("redis: the URL of the server is missing: write store redis redis://host:6379")
	}
	server, err := parseURL(s.URL, repl)
	if err != nil {
		return o, err
	}
	o = store.Options{Addresses: server.addresses, Username: server.username, Password: server.password,
		Database: server.database, Prefix: s.Prefix}
	for _, option := range []struct {
		name, value string
		to          *string
	}{{"username", s.Username, &o.Username}, {"password", s.Password, &o.Password}} {
		if option.value == "" {
			continue
		}
		if *option.to, err = expand(repl, option.name, option.value); err != nil {
			return o, err
		}
	}
	if err := checkPrefix(s.Prefix); err != nil {
		return o, err
	}
	if s.Sentinel != nil {
		if err := s.Sentinel.set(&o, repl); err != nil {
			return o, err
		}
	}
	o.TLS, err = s.TLS.config(server.tls)
	return o, err
}

func (s *Sentinel) set(o *store.Options, repl *caddy.Replacer) (err error) {
	if s.Master == "" || len(s.Addresses) == 0 {
		return errors.New(
			"redis: sentinel: expected the name of the primary and addresses: write sentinel <name> <host:26379>")
	}
	o.Master, o.Addresses = s.Master, nil
	for _, address := range s.Addresses {
		text, err := expand(repl, "sentinel", address)
		if err != nil {
			return err
		}
		if strings.ContainsAny(text, " \t\n/@") { // a part of it may be a password
			return errors.New("redis: sentinel: expected addresses as host:26379: write username and password into lines of their own")
		}
		o.Addresses = append(o.Addresses, withPort(text, "26379"))
	}
	if o.SentinelUsername, err = expand(repl, "sentinel username", s.Username); err != nil {
		return err
	}
	o.SentinelPassword, err = expand(repl, "sentinel password", s.Password)
	return err
}

// checkPrefix returns an error if a prefix has no hash tag, or has characters that patterns of
// keys give a meaning.
func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	open := strings.IndexByte(prefix, '{')
	if open < 0 || strings.IndexByte(prefix[open:], '}') < 2 {
		return fmt.Errorf("redis: prefix: must have a part in braces, got %q: write {%[1]s}", prefix)
	}
	if strings.ContainsAny(prefix, "*?[]\\ \t\n") {
		return fmt.Errorf("redis: prefix: must have letters, digits and braces only, got %q", prefix)
	}
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner = (*Store)(nil)
)
