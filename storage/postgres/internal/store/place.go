package store

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/caddy-tally/caddy-tally/storage"
)

// storeName is the store's name in errors.
const storeName = "postgres"

// defaultPrefix is the default prefix of the names of tables.
const defaultPrefix = "tally_"

// Options say where a store keeps its tables, and how.
type Options struct {
	// Config says how to connect to the server. Required.
	Config *pgconn.Config
	// Reread returns the DSN for each new connection, whose password may have changed. Only user
	// and password of it are used. Default: those of Config.
	Reread func() (string, error)
	// Prefix is the prefix of the names of tables, if necessary with a schema and a dot before it: see
	// [CheckPrefix]. Default: tally_.
	Prefix string
	// Durable makes each commit wait for the server's disk.
	Durable bool
	// Timeout is how long a call may take, unless its context ends before, and how long a store may
	// take to open. Required.
	Timeout time.Duration
	// Clock is read instead of the server's clock, in tests. It returns nanoseconds since the
	// Unix epoch.
	Clock func(storage.Reading) int64
	// MaxNotes is how many notes a place holds, in tests. Default: [storage.MaxNotes].
	MaxNotes int64
}

var prefixes = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,39}\.)?[a-z_][a-z0-9_]{0,39}$`)

// CheckPrefix returns an error if names of tables can't begin with a prefix.
func CheckPrefix(prefix string) error {
	if prefix == "" || prefixes.MatchString(prefix) {
		return nil
	}
	return fmt.Errorf(
		"expected lowercase letters, digits and _, up to 40, and before it a schema and a dot if need be, got %q",
		prefix)
}

// Place is where stores keep their data: tables on a server.
type Place struct {
	options Options
	prefix  string
	connect func(context.Context) (conn, error)

	mu        sync.Mutex
	uncertain []int64 // guarded by mu: machines with a batch that may still take effect

	witness storage.Witness // guarded by mu: of the last time read
}

// NewPlace returns a place. It connects to nothing.
func NewPlace(o Options) *Place {
	o.MaxNotes = cmp.Or(o.MaxNotes, storage.MaxNotes)
	p := &Place{options: o, prefix: cmp.Or(o.Prefix, defaultPrefix)}
	p.connect = p.dial
	return p
}

// Open opens a store. It creates the tables if there are none.
func (p *Place) Open(ctx context.Context) (storage.Store, error) {
	s := newStore(p)
	ctx, cancel := p.deadline(ctx)
	defer cancel()
	err := s.batches.with(ctx, func(c conn) error {
		if err := p.openTables(ctx, c); err != nil {
			return err
		}
		return s.machine.register(ctx, p, c)
	})
	if err != nil {
		_ = s.Close()
		return nil, p.wrap("open", err)
	}
	return s, nil
}

// keep keeps a witness for the next store, so that the time continues if the server comes back from an
// outage with another clock.
func (p *Place) keep(w storage.Witness) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.witness = w
}

func (p *Place) lastWitness() storage.Witness {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.witness
}

// suspect notes a machine with a batch that may still take effect. The next store that is opened
// prevents that, see machine.register.
func (p *Place) suspect(id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.uncertain, id) {
		p.uncertain = append(p.uncertain, id)
	}
}

func (p *Place) suspects() []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.uncertain)
}

func (p *Place) acquit(ids []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uncertain = slices.DeleteFunc(p.uncertain, func(id int64) bool { return slices.Contains(ids, id) })
}

func (p *Place) script() *script { return &script{place: p} }

// deadline returns a context that ends when a call must end.
func (p *Place) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, p.options.Timeout)
}

// wrap adds the failed operation to an error.
func (p *Place) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", storeName, what, err)
}
