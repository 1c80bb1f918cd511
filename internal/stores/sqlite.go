package stores

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/grammar"
	"github.com/caddy-tally/caddy-tally/internal/siting"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite"
)

// SQLite keeps the counts in an embedded SQLite database, a file on this machine.
type SQLite struct {
	// The database file. It and its folder are created if they do not exist. Put it on a local
	// disk, outside of any folder that is served. Default: `rate_limit/tally.db` in Caddy's data
	// directory.
	Path string `json:"path,omitempty"`

	// The durability of a commit: `normal` (default) survives a crash of Caddy and `kill -9`;
	// `full` survives a loss of power as well and costs an fsync per commit.
	Synchronous string `json:"synchronous,omitempty"`

	// Whether charges go to a journal beside the database while no other process uses the database,
	// so that requests don't wait for it: `on` (default) or `off`. The journal takes 32 MiB of
	// disk. There is none with `synchronous full`, on other systems than Linux, and on network file
	// systems.
	Journal string `json:"journal,omitempty"`

	// The most bytes that the database file may take, at least 1 MiB.
	// Default: 1 GiB.
	MaxSize int64 `json:"max_size,omitempty"`

	path string // absolute
}

func init() {
	caddy.RegisterModule(SQLite{})
}

// CaddyModule returns the Caddy module information.
func (SQLite) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "rate_limit.stores.sqlite",
		New: func() caddy.Module { return new(SQLite) },
	}
}

// DefaultFolder is the default folder of our files in Caddy's data directory.
const DefaultFolder = "rate_limit"

const (
	defaultFile = "tally.db"

	// leastBusyTimeout is how long a commit waits for another writing process, or longer if
	// requests wait longer: those wait for `store_timeout` at most.
	leastBusyTimeout = time.Second
)

// defaultDatabase returns the default path of the database.
func defaultDatabase() string { return filepath.Join(caddy.AppDataDir(), DefaultFolder, defaultFile) }

// Provision checks the settings.
func (s *SQLite) Provision(ctx caddy.Context) error {
	switch {
	case s.Synchronous != "" && s.Synchronous != "normal" && s.Synchronous != "full":
		return fmt.Errorf("synchronous: must be normal or full, got %q", s.Synchronous)
	case s.Journal != "" && s.Journal != "on" && s.Journal != "off":
		return fmt.Errorf("journal: must be on or off, got %q", s.Journal)
	case s.MaxSize != 0 && s.MaxSize < sqlite.MinMaxSize:
		return fmt.Errorf("max_size: must be at least 1MiB (%d bytes), got %d", sqlite.MinMaxSize, s.MaxSize)
	}
	path, err := filepath.Abs(cmp.Or(s.Path, defaultDatabase()))
	if err != nil {
		return fmt.Errorf("path: %w", err)
	}
	s.path = path
	warnOfPlace(ctx.Logger(), path)
	return nil
}

// Counts implements Store.
func (s *SQLite) Counts() string { return "sqlite " + s.path }

// Identity implements Store.
func (s *SQLite) Identity() string {
	return fmt.Sprintf("sqlite %s synchronous=%s journal=%s max_size=%d", s.path, s.Synchronous, s.Journal, s.MaxSize)
}

// Place implements Store.
func (s *SQLite) Place() string { return s.path }

// Folder implements Store.
func (s *SQLite) Folder() string { return filepath.Dir(s.path) }

// Open implements Store.
func (s *SQLite) Open(ctx context.Context, timeout time.Duration) (storage.Store, error) {
	options := sqlite.Options{Path: s.path, MaxSize: s.MaxSize, BusyTimeout: max(timeout, leastBusyTimeout),
		NoJournal: s.Journal == "off", Notice: noticed}
	if s.Synchronous == "full" {
		options.Synchronous = sqlite.Full
	}
	store, err := sqlite.Open(ctx, options)
	if err != nil {
		return nil, err // without store: a nil pointer in an interface is not nil
	}
	return store, nil
}

// smallJournals has the databases whose small journal was told of: once in the life of the process.
var smallJournals sync.Map

// noticed logs that a damaged database was set aside, or the problem of its journal.
func noticed(n sqlite.Notice) {
	switch {
	case n.NoJournal:
		caddyconf.Logger().Info("requests wait for the database, because there can be no journal beside it",
			zap.String("path", n.Path), zap.Error(n.Cause))
		return
	case n.NewJournal:
		caddyconf.Logger().Warn("somebody has changed the file of the journal; its charges are in the database, and another journal is used",
			zap.String("path", n.Path), zap.Error(n.Cause))
		return
	case n.LostJournal:
		caddyconf.Logger().Warn("the journal is not the one that the database was used with: it was removed or replaced, or its header is damaged; after a crash, requests of the last seconds before may be admitted once more",
			zap.String("path", n.Path))
		return
	case n.Damaged > 0:
		caddyconf.Logger().Error(
			"records of the journal were damaged; about as many requests may be admitted once more",
			zap.String("path", n.Path), zap.Int("records", n.Damaged))
		return
	case n.SmallJournal:
		if _, known := smallJournals.LoadOrStore(n.Path, true); known {
			return // a full disk makes another one at each try
		}
		caddyconf.Logger().Warn("the journal is smaller than usual, because the disk was full when it was made, or files may not be so large (a quota, LimitFSIZE); under heavy load, requests wait for the database. To make a new one, stop Caddy and delete the file ending in -charges",
			zap.String("path", n.Path))
		return
	}
	caddyconf.Logger().Error("the database was damaged; it is set aside and counting starts from 0",
		zap.String("path", n.Path), zap.String("set_aside", n.Aside), zap.Error(n.Cause))
}

// Interface guards
var (
	_ File                  = (*SQLite)(nil)
	_ caddy.Provisioner     = (*SQLite)(nil)
	_ caddyfile.Unmarshaler = (*SQLite)(nil)
)

// UnmarshalCaddyfile sets up the store from Caddyfile tokens. Syntax:
//
//	sqlite [<path>] {
//		synchronous normal|full
//		journal on|off
//		max_size <size>
//	}
func (s *SQLite) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the store
	err := grammar.Line("sqlite [<path>]", &s.Path).With(grammar.Block{Rules: func() grammar.Rules {
		return grammar.Rules{
			grammar.Line("synchronous normal|full", &s.Synchronous),
			grammar.Line("journal on|off", &s.Journal),
			grammar.Line("max_size <size>", maxSize(&s.MaxSize)),
		}
	}}).Read(d)
	if err != nil {
		return fmt.Errorf("store %w", err)
	}
	return nil
}

// mostSize is the largest max_size. Numbers of a Caddyfile pass through float64, which is exact to the
// byte up to this size.
const mostSize = 1 << 48

// maxSize returns the function for a max_size.
func maxSize(field *int64) func(string) error {
	return func(word string) error {
		size, err := humanize.ParseBytes(word)
		if err != nil || size == 0 || size > mostSize {
			return fmt.Errorf("must be a size such as 512MiB or 1GiB, at most 256TiB, got %q", word)
		}
		*field = int64(size)
		return nil
	}
}

// warnOfPlace warns of places where a database does not work well, or is not safe.
func warnOfPlace(log *zap.Logger, path string) {
	if kind := siting.NetworkFileSystem(path); kind != "" {
		log.Warn("the database is on a network file system, where it may fail or be damaged; put it on a local disk",
			zap.String("path", path), zap.String("file_system", kind))
	} else if folder := siting.OpenFolder(path); folder != "" {
		log.Warn(
			"everybody on this machine may write to the folder of the database; use one to which only Caddy may write",
			zap.String("path", path), zap.String("folder", folder))
	}
}
