package stores

import (
	"context"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/epoch"
	"github.com/caddy-tally/caddy-tally/internal/grammar"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

// Memory keeps the counts in memory, without any file. They survive a reload if the new
// configuration has this store, too, but not a restart. Sessions end with a restart as well, unless
// there is a `secret_file`.
type Memory struct {
	// The most bytes of memory that the counts may take, an estimate, at least 1 MiB. When it is
	// reached, reduced limits apply until some counts have expired. Default: 256 MiB.
	MaxSize int64 `json:"max_size,omitempty"`

	held *heldMemory
}

func init() {
	caddy.RegisterModule(Memory{})
}

// CaddyModule returns the Caddy module information.
func (Memory) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "rate_limit.stores.memory",
		New: func() caddy.Module { return new(Memory) },
	}
}

// heldMemory has the data that other stores keep in files. Configurations pass it on.
type heldMemory struct {
	counts *memory.Database
	secret *identity.Secret
	epochs *epoch.Keys
}

func newHeldMemory() *heldMemory {
	return &heldMemory{memory.New(), identity.RandomSecret(), epoch.InMemory()}
}

// memories holds one heldMemory while any configuration has a Memory.
var memories = caddy.NewUsagePool()

// Provision checks the settings.
func (m *Memory) Provision(caddy.Context) error {
	if m.MaxSize != 0 && m.MaxSize < memory.MinMaxSize {
		return fmt.Errorf("max_size: must be at least 1MiB (%d bytes), got %d", memory.MinMaxSize, m.MaxSize)
	}
	held, _ := memories.LoadOrStore("", newHeldMemory())
	m.held = held.(*heldMemory)
	return nil
}

// Cleanup implements caddy.CleanerUpper. A late request still finds the counts.
func (m *Memory) Cleanup() error {
	if m.held != nil {
		_, _ = memories.Delete("") // returns no error
	}
	return nil
}

// Isolate gives the store separate counts, which end with it.
func (m *Memory) Isolate() { m.held = newHeldMemory() }

// Counts implements Store.
func (m *Memory) Counts() string { return "memory" }

// Identity implements Store.
func (m *Memory) Identity() string { return fmt.Sprintf("memory max_size=%d", m.MaxSize) }

// Open implements Store.
func (m *Memory) Open(ctx context.Context, _ time.Duration) (storage.Store, error) {
	return m.held.counts.Opener(memory.Options{MaxSize: m.MaxSize})(ctx)
}

// Keys implements Keyed.
func (m *Memory) Keys() (*identity.Secret, *epoch.Keys) { return m.held.secret, m.held.epochs }

// UnmarshalCaddyfile sets up the store from Caddyfile tokens. Syntax:
//
//	memory {
//		max_size <size>
//	}
func (m *Memory) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the store
	err := grammar.Line("memory").With(grammar.Block{Rules: func() grammar.Rules {
		return grammar.Rules{grammar.Line("max_size <size>", maxSize(&m.MaxSize))}
	}}).Read(d)
	if err != nil {
		return fmt.Errorf("store %w", err)
	}
	return nil
}

// Interface guards
var (
	_ Keyed                 = (*Memory)(nil)
	_ caddy.Provisioner     = (*Memory)(nil)
	_ caddy.CleanerUpper    = (*Memory)(nil)
	_ caddyfile.Unmarshaler = (*Memory)(nil)
)
