package bboltstore

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	tally "github.com/caddy-tally/caddy-tally"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Module is the store as a module of Caddy.
type Module struct {
	// The database file, on a local disk. Default: `rate_limit/tally.bolt` in Caddy's data directory.
	Path string `json:"path,omitempty"`

	// The most bytes that the used part of the file may take. Default: 1 GiB.
	MaxSize int64 `json:"max_size,omitempty"`
}

func init() { caddy.RegisterModule(Module{}) }

// CaddyModule returns the Caddy module information.
func (Module) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "rate_limit.stores.bbolt", New: func() caddy.Module { return new(Module) }}
}

// Provision checks the settings. It must not open anything: `caddy validate` calls it, too.
func (m *Module) Provision(caddy.Context) (err error) {
	if m.MaxSize < 0 {
		return fmt.Errorf("max_size: must be at least 1 byte, got %d", m.MaxSize)
	}
	m.Path, err = filepath.Abs(cmp.Or(m.Path, filepath.Join(caddy.AppDataDir(), "rate_limit", "tally.bolt")))
	return err
}

// Counts implements [tally.Store]. Configs with equal counts share usages.
func (m *Module) Counts() string { return "bbolt " + m.Path }

// Identity implements [tally.Store]. Configs with an equal identity share an open store.
func (m *Module) Identity() string { return fmt.Sprintf("%s max_size=%d", m.Counts(), m.MaxSize) }

// Place implements [tally.FileStore].
func (m *Module) Place() string { return m.Path }

// Folder implements [tally.FileStore]. The secret for names at rest is kept there.
func (m *Module) Folder() string { return filepath.Dir(m.Path) }

// Open implements [tally.Store].
func (m *Module) Open(ctx context.Context, timeout time.Duration) (storage.Store, error) {
	s, err := Open(ctx, Options{Path: m.Path, MaxSize: m.MaxSize, Timeout: timeout})
	if err != nil {
		return nil, err // not s: a nil pointer in an interface is not nil
	}
	return s, nil
}

// UnmarshalCaddyfile reads the store of the global option:
//
//	rate_limit {
//		store bbolt [<path>] {
//			max_size <size>
//		}
//	}
func (m *Module) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the store
	if d.NextArg() {
		m.Path = d.Val()
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		var size string
		if d.Val() != "max_size" {
			return d.Errf("unrecognized option %q of the store: expected max_size <size>", d.Val())
		}
		if !d.AllArgs(&size) {
			return d.ArgErr()
		}
		bytes, err := humanize.ParseBytes(size)
		if err != nil || bytes == 0 || bytes > 1<<48 {
			return d.Errf("max_size: must be a size such as 512MiB, got %q", size)
		}
		m.MaxSize = int64(bytes)
	}
	return nil
}

// Interface guards
var (
	_ tally.FileStore       = (*Module)(nil)
	_ caddy.Provisioner     = (*Module)(nil)
	_ caddyfile.Unmarshaler = (*Module)(nil)
)
