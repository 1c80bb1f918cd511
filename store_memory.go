package tally

import (
	"context"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/epoch"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

// MemoryStore keeps the counts in memory, and no file at all. They survive a
// reload, as long as the new configuration has this store, too, and no restart.
// Sessions end with a restart as well, unless there is a `secret_file`.
type MemoryStore struct {
	// The most bytes of memory that the counts may take, an estimate, at least
	// 1 MiB. When it is reached, reduced limits hold until some have expired.
	// Default: 256 MiB.
	MaxSize int64 `json:"max_size,omitempty"`

	held *heldMemory
}

func init() {
	caddy.RegisterModule(MemoryStore{})
}

// CaddyModule returns the Caddy module information.
func (MemoryStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "rate_limit.stores.memory",
		New: func() caddy.Module { return new(MemoryStore) },
	}
}

// heldMemory is what would be in files: it is handed on from configuration to
// configuration.
type heldMemory struct {
	counts *memory.Database
	secret *identity.Secret
	epochs *epoch.Keys
}

func newHeldMemory() *heldMemory {
	return &heldMemory{memory.New(), identity.RandomSecret(), epoch.InMemory()}
}

// Destruct implements caddy.Destructor.
func (*heldMemory) Destruct() error { return nil }

// memories has one heldMemory while a configuration has a MemoryStore.
var memories = caddy.NewUsagePool()

// Provision checks the settings.
func (s *MemoryStore) Provision(caddy.Context) error {
	if s.MaxSize != 0 && s.MaxSize < memory.MinMaxSize {
		return fmt.Errorf("max_size: must be at least 1MiB (%d bytes), got %d", memory.MinMaxSize, s.MaxSize)
	}
	held, _, err := memories.LoadOrNew("", func() (caddy.Destructor, error) {
		return newHeldMemory(), nil
	})
	if err != nil {
		return err
	}
	s.held = held.(*heldMemory)
	return nil
}

// Cleanup implements caddy.CleanerUpper. A request that comes late still finds the
// counts.
func (s *MemoryStore) Cleanup() error {
	if s.held == nil {
		return nil
	}
	_, err := memories.Delete("")
	return err
}

// Identity implements Store.
func (s *MemoryStore) Identity() string { return fmt.Sprintf("memory max_size=%d", s.MaxSize) }

// Open implements Store.
func (s *MemoryStore) Open(ctx context.Context, _ time.Duration) (storage.Store, error) {
	return s.held.counts.Opener(memory.Options{MaxSize: s.MaxSize})(ctx)
}

func (s *MemoryStore) keys() (*identity.Secret, *epoch.Keys) { return s.held.secret, s.held.epochs }

// UnmarshalCaddyfile sets up the store from Caddyfile tokens. Syntax:
//
//	memory {
//		max_size <size>
//	}
func (s *MemoryStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the store
	if d.NextArg() {
		return d.Errf("store memory: takes no path, got %q: counts are kept in no file", d.Val())
	}
	return eachOption(d, func(d *caddyfile.Dispenser) error {
		if d.Val() == "max_size" {
			return unmarshalSize(d, &s.MaxSize)
		}
		return d.Errf("unrecognized option %q: expected max_size", d.Val())
	})
}

// Interface guards
var (
	_ keyedStore            = (*MemoryStore)(nil)
	_ caddy.Provisioner     = (*MemoryStore)(nil)
	_ caddy.CleanerUpper    = (*MemoryStore)(nil)
	_ caddyfile.Unmarshaler = (*MemoryStore)(nil)
)
