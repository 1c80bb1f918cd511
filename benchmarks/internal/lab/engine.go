// Package lab is what the programs and benchmarks below benchmarks/ share: an
// engine on a real store, as Caddy runs it, with keys named by a real secret.
package lab

import (
	"context"
	"path/filepath"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite"
)

// LimitID is the limit that everything is counted under. Its size is that of the
// hashes that name limits in Caddy, so that rows are as long as there.
const LimitID storage.LimitID = 0x9E3779B97F4A7C15

// Place is a folder with a database and the secret that its keys are named under.
type Place struct {
	// NoJournal keeps stores from using a journal.
	NoJournal bool

	dir    string
	secret *identity.Secret
}

// NewPlace returns the place in a folder, and makes its secret if there is none.
func NewPlace(dir string) (*Place, error) {
	secret, err := identity.OpenSecret(filepath.Join(dir, "tally.key"))
	return &Place{dir: dir, secret: secret}, err
}

// Database returns the path of the database file.
func (p *Place) Database() string { return filepath.Join(p.dir, "tally.db") }

// Name returns what a key is called in the database.
func (p *Place) Name(id storage.LimitID, key string) storage.Key {
	return p.secret.Hash(uint64(id), key)
}

// maxSize leaves room for ten million rows of any kind.
const maxSize = 8 << 30

// OpenStore opens the database, which is made if there is none.
func (p *Place) OpenStore(ctx context.Context) (storage.Store, error) {
	return sqlite.Open(ctx, sqlite.Options{Path: p.Database(), MaxSize: maxSize, NoJournal: p.NoJournal})
}

// NewEngine starts an engine. Options that it leaves open are filled in; those
// of the engine have the engine's defaults.
func (p *Place) NewEngine(o engine.Options) *engine.Engine {
	o.Name = func(id storage.LimitID, key string, _ time.Duration, _ int64) (engine.Name, error) {
		return engine.Name{Key: p.Name(id, key)}, nil
	}
	if o.Open == nil {
		o.Open = p.OpenStore
	}
	return engine.New(o)
}

// NewLimit returns a limit that is counted under [LimitID].
func NewLimit(p limiter.Params) (*engine.Limit, error) {
	l, err := limiter.New(p)
	return &engine.Limit{ID: LimitID, Rate: l}, err
}

// Silent is an [engine.Observer] that does nothing, to be embedded.
type Silent struct{}

func (Silent) Degraded(time.Duration, error)           {}
func (Silent) Recovered(time.Duration)                 {}
func (Silent) Outage()                                 {}
func (Silent) Committed(int, time.Duration)            {}
func (Silent) Swept(int64, int, time.Duration, error)  {}
func (Silent) Punished(reputation.Reason)              {}
func (Silent) Banned([]byte, reputation.Reason, int64) {}
