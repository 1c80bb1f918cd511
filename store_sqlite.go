package tally

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite"
)

// SQLiteStore keeps the counts in an embedded SQLite database, a file on this
// machine.
type SQLiteStore struct {
	// The database file. It and its folder are made if they do not exist. Put
	// it on a local disk, outside of any folder that is served.
	// Default: `rate_limit/tally.db` in Caddy's data directory.
	Path string `json:"path,omitempty"`

	// What a commit survives: `normal` (default) survives a crash of Caddy and
	// `kill -9`; `full` survives a loss of power as well and costs an fsync per
	// commit.
	Synchronous string `json:"synchronous,omitempty"`

	// Whether charges go to a journal beside the database while no other process uses that, so
	// that requests don't wait for the database: `on` (default) or `off`. It takes 32 MiB of
	// disk. There is none with `synchronous full`, on other systems than Linux, and on network
	// file systems.
	Journal string `json:"journal,omitempty"`

	// The most bytes that the database file may take, at least 1 MiB.
	// Default: 1 GiB.
	MaxSize int64 `json:"max_size,omitempty"`

	path string // absolute
}

func init() {
	caddy.RegisterModule(SQLiteStore{})
}

// CaddyModule returns the Caddy module information.
func (SQLiteStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "rate_limit.stores.sqlite",
		New: func() caddy.Module { return new(SQLiteStore) },
	}
}

const (
	defaultFolder = "rate_limit"
	defaultFile   = "tally.db"

	// leastBusyTimeout is how long a commit waits for another process that writes,
	// or longer if requests wait longer: those wait for `store_timeout` at most.
	leastBusyTimeout = time.Second
)

// Provision checks the settings.
func (s *SQLiteStore) Provision(ctx caddy.Context) error {
	switch {
	case s.Synchronous != "" && s.Synchronous != "normal" && s.Synchronous != "full":
		return fmt.Errorf("synchronous: must be normal or full, got %q", s.Synchronous)
	case s.Journal != "" && s.Journal != "on" && s.Journal != "off":
		return fmt.Errorf("journal: must be on or off, got %q", s.Journal)
	case s.MaxSize != 0 && s.MaxSize < sqlite.MinMaxSize:
		return fmt.Errorf("max_size: must be at least 1MiB (%d bytes), got %d", sqlite.MinMaxSize, s.MaxSize)
	}
	path, err := filepath.Abs(cmp.Or(s.Path, filepath.Join(caddy.AppDataDir(), defaultFolder, defaultFile)))
	if err != nil {
		return fmt.Errorf("path: %w", err)
	}
	s.path = path
	warnOfPlace(ctx.Logger(), path)
	return nil
}

// Identity implements Store.
func (s *SQLiteStore) Identity() string {
	return fmt.Sprintf("sqlite %s synchronous=%s journal=%s max_size=%d", s.path, s.Synchronous, s.Journal, s.MaxSize)
}

// Place implements Store.
func (s *SQLiteStore) Place() string { return s.path }

// Folder implements Store.
func (s *SQLiteStore) Folder() string { return filepath.Dir(s.path) }

// Open implements Store.
func (s *SQLiteStore) Open(ctx context.Context, timeout time.Duration) (storage.Store, error) {
	options := sqlite.Options{Path: s.path, MaxSize: s.MaxSize, BusyTimeout: max(timeout, leastBusyTimeout), NoJournal: s.Journal == "off", Notice: noticed}
	if s.Synchronous == "full" {
		options.Synchronous = sqlite.Full
	}
	store, err := sqlite.Open(ctx, options)
	if err != nil {
		return nil, err // not store: a nil pointer in an interface is not nil
	}
	return store, nil
}

// noticed logs that a damaged database was set aside, or what is wrong with its journal.
func noticed(n sqlite.Notice) {
	switch {
	case n.NoJournal:
		logger().Info("requests wait for the database, because there can be no journal beside it",
			zap.String("path", n.Path), zap.Error(n.Cause))
		return
	case n.NewJournal:
		logger().Warn("somebody has changed the file of the journal; its charges are in the database, and another journal is used",
			zap.String("path", n.Path), zap.Error(n.Cause))
		return
	case n.LostJournal:
		logger().Warn("the journal is not the one that the database was used with: it was removed or replaced, or its header is damaged; after a crash, requests of the last seconds before may be admitted once more",
			zap.String("path", n.Path))
		return
	case n.Damaged > 0:
		logger().Error("records of the journal were damaged; about as many requests may be admitted once more",
			zap.String("path", n.Path), zap.Int("records", n.Damaged))
		return
	case n.SmallJournal:
		logger().Warn("the journal is smaller than usual, because the disk was full when it was made; under heavy load, requests wait for the database. To make a new one, stop Caddy and delete the file ending in -charges",
			zap.String("path", n.Path))
		return
	}
	logger().Error("the database was damaged; it is set aside and counting starts from 0",
		zap.String("path", n.Path), zap.String("set_aside", n.Aside), zap.Error(n.Cause))
}

// Interface guards
var (
	_ FileStore             = (*SQLiteStore)(nil)
	_ caddy.Provisioner     = (*SQLiteStore)(nil)
	_ caddyfile.Unmarshaler = (*SQLiteStore)(nil)
)

// UnmarshalCaddyfile sets up the store from Caddyfile tokens. Syntax:
//
//	sqlite [<path>] {
//		synchronous normal|full
//		journal     on|off
//		max_size    <size>
//	}
func (s *SQLiteStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the store
	if d.NextArg() {
		s.Path = d.Val()
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	return eachOption(d, s.unmarshalOption)
}

func (s *SQLiteStore) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch d.Val() {
	case "synchronous":
		s.Synchronous, err = oneOf(d, "normal", "full")
		return err
	case "journal":
		s.Journal, err = oneOf(d, "on", "off")
		return err
	case "max_size":
		return unmarshalSize(d, &s.MaxSize)
	}
	return d.Errf("unrecognized option %q: expected synchronous, journal or max_size", d.Val())
}
