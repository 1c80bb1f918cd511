package tally

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/identity/epoch"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// App keeps the counts of all `rate_limit` handlers and decides about their
// requests. It need not be configured: every option has a default.
type App struct {
	// Where the counts are kept. Default: `{"engine": "sqlite"}`.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=rate_limit.stores inline_key=engine"`

	// How often expired rows are deleted and memory of idle clients is given
	// back, at least 1s. Default: 1m.
	CleanupInterval caddy.Duration `json:"cleanup_interval,omitempty"`

	// How many counts are held in memory, at least 1000: one per key and limit. In
	// zones that count per `client` each client also has one for how it stands, and
	// each network one per limit and one for its pressure: up to four per client with
	// one limit. Clients beyond that are still limited, with a look at the database
	// for each of their requests. Default: 1000000.
	MaxKeys int `json:"max_keys,omitempty"`

	// How long a request may wait for the database before memory decides alone,
	// at least 1ms. Default: 100ms.
	StoreTimeout caddy.Duration `json:"store_timeout,omitempty"`

	// What share of every limit is admitted while the database can't be used,
	// in percent from 1 to 100. Default: 40.
	DegradedLimit int `json:"degraded_limit,omitempty"`

	// The file with the secret under which keys are hashed before they reach the
	// database, and sessions are signed: its first line, of at least 32
	// characters. Lines after it only verify what was signed under them. Several
	// machines can have the same, and then know one another's sessions. It is made
	// on first use if it does not exist. Default: `tally.key` beside the database.
	SecretFile string `json:"secret_file,omitempty"`

	// What violations cost, and that they do.
	Reputation *Reputation `json:"reputation,omitempty"`

	// When clients are banned. Default: never.
	Ban *Ban `json:"ban,omitempty"`

	// Classes of clients that have the same limits, for zones with `tiers` or
	// `tier`.
	Tiers []*Tier `json:"tiers,omitempty"`

	// How clients are told by their API keys, for zones `per` `api_key` or with
	// `tiers`.
	APIKeys *APIKeys `json:"api_keys,omitempty"`

	// How many leading bits of an IPv4 address tell clients apart, from 1 to 32, in
	// zones that don't say it themselves. Default: 32.
	IPv4Prefix int `json:"ipv4_prefix,omitempty"`

	// How many leading bits of an IPv6 address tell clients apart, from 1 to 128, in
	// zones that don't say it themselves. Default: 64, because a household commonly
	// has a /64 to itself.
	IPv6Prefix int `json:"ipv6_prefix,omitempty"`

	// When too many different clients come from one network, and what becomes of
	// it.
	Pressure *Pressure `json:"pressure,omitempty"`

	// Let clients earn sessions, by which they are known again. Default: none do.
	Session *Session `json:"session,omitempty"`

	// Where the option stands in a config file, such as `Caddyfile:12`, for messages. The
	// Caddyfile adapter notes it.
	Source string `json:"source,omitempty"`

	knowsClients bool // whether anything depends on who a request is from

	services []service // that are told by a header field

	zoneNames map[uint32]string // by what a violation holds of them

	lasts map[storage.LimitID]*time.Duration // how long what limits count is remembered, see limit

	store    Store
	settings settings
	zones    bool            // whether any handler has any
	warned   map[string]bool // what need not be warned of again
	survey   *survey         // what all handlers say; nil before the first is provisioned
	claims   sync.Once       // a request's address was one that its client may have chosen
	log      *zap.Logger

	running  chan struct{} // closed when it is known whether the configuration runs
	runsOnce sync.Once     // closes running

	mu       sync.Mutex
	instance atomic.Pointer[instance] // written under mu; nil until it is needed
	closed   bool                     // guarded by mu
}

// Store is a module that keeps the counts, in the namespace `rate_limit.stores`.
type Store interface {
	caddy.Module
	// Identity says which counts the store keeps, and how: stores that are equal in
	// it keep the same, alike.
	Identity() string
	// Open opens the store. Nothing is opened, made or changed before. A call of the
	// store may wait for other processes for as long as requests wait for it.
	Open(ctx context.Context, timeout time.Duration) (storage.Store, error)
}

// FileStore is a [Store] that keeps the counts in files on this machine.
type FileStore interface {
	Store
	// Place says where the counts are, for those who run the server. It shows
	// nothing that must stay secret.
	Place() string
	// Folder is where files that belong to the counts are kept.
	Folder() string
}

// keyedStore is a [Store] that has the secret and the keys that names at rest are
// made under, and no file for them.
type keyedStore interface {
	Store
	keys() (*identity.Secret, *epoch.Keys)
}

func init() {
	caddy.RegisterModule(new(App))
	caddy.RegisterModule(SQLiteStore{})
	caddy.RegisterModule(MemoryStore{})
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "rate_limit",
		New: func() caddy.Module { return new(App) },
	}
}

// Provision checks the settings. It opens nothing: a configuration that is only
// looked at, or that turns out to be wrong elsewhere, leaves no trace.
func (a *App) Provision(ctx caddy.Context) error {
	a.log, a.running, a.warned = ctx.Logger(), make(chan struct{}), make(map[string]bool)
	a.zoneNames = make(map[uint32]string)
	for _, step := range []func() error{
		func() error { return a.loadStore(ctx) },
		a.check,
		a.provisionClients,
		a.provisionFiles,
	} {
		if err := step(); err != nil {
			return atSource(fmt.Errorf("rate_limit: %w", err), a.Source)
		}
	}
	return a.openOnceStarted(ctx)
}

// provisionFiles settles what is kept where.
func (a *App) provisionFiles() error {
	a.settings = settings{
		store:    a.store.Identity(),
		kind:     a.store.CaddyModule().ID.Name(),
		secret:   a.SecretFile,
		maxKeys:  a.MaxKeys,
		timeout:  time.Duration(a.StoreTimeout),
		cleanup:  time.Duration(a.CleanupInterval),
		degraded: a.DegradedLimit,
	}
	if _, ok := a.store.(keyedStore); ok {
		return nil
	}
	folder := filepath.Join(caddy.AppDataDir(), defaultFolder)
	if store, ok := a.store.(FileStore); ok {
		a.settings.path, folder = store.Place(), store.Folder()
	}
	a.settings.secret = cmp.Or(a.SecretFile, filepath.Join(folder, "tally.key"))
	a.settings.epochs = filepath.Join(folder, "tally.epochs")
	if secret, err := filepath.Abs(a.settings.secret); err == nil && secret == a.settings.path {
		return fmt.Errorf("secret_file: is the database as well, got %q: name another file", a.SecretFile)
	}
	a.warnOfAccess("secret_file", a.settings.secret)
	a.warnOfAccess("the keys that names at rest are hashed under", a.settings.epochs)
	return nil
}

func (a *App) loadStore(ctx caddy.Context) error {
	if a.StoreRaw == nil {
		a.StoreRaw = json.RawMessage(`{"engine":"sqlite"}`)
	}
	module, err := ctx.LoadModule(a, "StoreRaw")
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	store, ok := module.(Store)
	if !ok {
		return fmt.Errorf("store: module %T is not a store", module)
	}
	a.store = store
	return nil
}

// check tells which setting is out of its range.
func (a *App) check() error {
	switch {
	case a.CleanupInterval != 0 && time.Duration(a.CleanupInterval) < time.Second:
		return fmt.Errorf("cleanup_interval: must be at least 1s, got %v", time.Duration(a.CleanupInterval))
	case a.MaxKeys != 0 && a.MaxKeys < 1000:
		return fmt.Errorf("max_keys: must be at least 1000, got %d", a.MaxKeys)
	case a.StoreTimeout != 0 && time.Duration(a.StoreTimeout) < time.Millisecond:
		return fmt.Errorf("store_timeout: must be at least 1ms, got %v", time.Duration(a.StoreTimeout))
	case a.DegradedLimit != 0 && (a.DegradedLimit < 1 || a.DegradedLimit > 100):
		return fmt.Errorf("degraded_limit: must be between 1%% and 100%%, got %d%%", a.DegradedLimit)
	}
	if err := checkPrefixes(a.IPv4Prefix, a.IPv6Prefix); err != nil {
		return err
	}
	if err := a.Pressure.check(); err != nil {
		return err
	}
	if err := a.Reputation.check(); err != nil {
		return err
	}
	return a.Ban.check()
}

// provisionClients checks how clients are told apart.
func (a *App) provisionClients() error {
	if err := a.provisionTiers(); err != nil {
		return err
	}
	if a.Session != nil {
		a.knowsClients = true
		if err := a.Session.provision(); err != nil {
			return fmt.Errorf("session: %w", err)
		}
	}
	if a.APIKeys == nil {
		return nil
	}
	if err := a.APIKeys.provision(a); err != nil {
		return fmt.Errorf("api_keys: %w", err)
	}
	return nil
}

// openOnceStarted has the store opened when the whole configuration runs, which
// is the first moment at which it can't be rejected any more.
func (a *App) openOnceStarted(ctx caddy.Context) error {
	app, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("rate_limit: events: %w", err)
	}
	return app.(*caddyevents.App).On("started", startedHandler{a})
}

// startedHandler opens the store of an app.
type startedHandler struct{ app *App }

// readyTimeout is how long a start waits for the store to be open, so that the
// first requests need not.
const readyTimeout = 5 * time.Second

// Handle implements caddyevents.Handler.
func (s startedHandler) Handle(context.Context, caddy.Event) error {
	if !s.app.zones {
		return nil
	}
	h := s.app.open()
	s.app.settle()
	if h == nil {
		return nil
	}
	var keys *apikeys.File
	if s.app.APIKeys != nil {
		keys = s.app.APIKeys.keys
	}
	h.keys.Store(keys)
	select {
	case <-h.engine.Ready():
	case <-time.After(readyTimeout):
	}
	return nil
}

// settle says that it is known whether the configuration runs.
func (a *App) settle() { a.runsOnce.Do(func() { close(a.running) }) }

// decide decides about a request. It is false if nothing can be known of the
// counts because the configuration was rejected.
func (a *App) decide(ctx context.Context, client *engine.Client, draws []engine.Draw) (d engine.Decision, ok bool) {
	if h := a.use(); h != nil {
		if d = h.engine.DecideFor(ctx, client, draws); !d.Degraded || !h.closing.Load() {
			return d, true
		}
	}
	return a.decideLate(ctx, client, draws)
}

// punish commits an offense of a client.
func (a *App) punish(client *engine.Client, o reputation.Offense) {
	if h := a.use(); h != nil {
		h.engine.Punish(client, o)
	}
}

// decideLate decides about a request that has outlived its configuration: Caddy
// lets those finish that are under way when it loads another. It borrows the
// instance, which is opened again if nobody else uses it any more; that of a
// configuration that never ran is not.
func (a *App) decideLate(ctx context.Context, client *engine.Client, draws []engine.Draw) (d engine.Decision, ok bool) {
	if a.instance.Load() == nil && !a.isShared() {
		return a.decideElsewhere(ctx, client, draws)
	}
	value, _, err := instances.LoadOrNew(a.settings, a.newInstance)
	if err != nil {
		return d, false
	}
	anew(client) // what they know is of another engine
	for i := range draws {
		anew(draws[i].Client)
	}
	d = value.(*instance).engine.DecideFor(ctx, client, draws)
	if _, err := instances.Delete(a.settings); err != nil {
		a.log.Error("the rate limiter could not be closed", zap.Error(err))
	}
	return d, true
}

// decideElsewhere decides about a request of a configuration that was rejected
// after it had begun to listen: whatever runs instead counts it.
func (a *App) decideElsewhere(ctx context.Context, client *engine.Client, draws []engine.Draw) (d engine.Decision, ok bool) {
	var other *instance
	eachInstance(func(h *instance) {
		if other == nil || h.settings.store == a.settings.store {
			other = h
		}
	})
	if other == nil {
		return d, false
	}
	return other.engine.DecideFor(ctx, client, draws), true
}

// anew has a client looked up again.
func anew(c *engine.Client) {
	if c != nil {
		*c = engine.Client{Key: c.Key}
	}
}

// use returns the instance. If a request comes before the configuration has
// completely started, it waits for that, because the store must not be opened
// for a configuration that is rejected yet; one that is open already will do.
// The instance is nil after Cleanup if it was not used before.
func (a *App) use() *instance {
	if h := a.instance.Load(); h != nil {
		return h
	}
	if !a.isShared() {
		select {
		case <-a.running:
		case <-time.After(readyTimeout):
		}
	}
	return a.open()
}

// isShared reports whether another configuration uses the instance.
func (a *App) isShared() bool {
	_, shared := instances.References(a.settings)
	return shared
}

func (a *App) newInstance() (caddy.Destructor, error) { return newInstance(a.settings, a.store) }

func (a *App) open() *instance {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.instance.Load(); h != nil || a.closed {
		return h
	}
	value, _, err := instances.LoadOrNew(a.settings, a.newInstance)
	if err != nil {
		a.log.Error("the rate limiter could not be started", zap.Error(err))
		return nil
	}
	a.instance.Store(value.(*instance))
	return a.instance.Load()
}

// refusals returns the log of a zone's refusals.
func (a *App) refusals(zone string) *refusalLog {
	if h := a.use(); h != nil {
		return h.log(zone)
	}
	return &refusalLog{zone: zone}
}

// Start implements caddy.App.
func (a *App) Start() error {
	if a.survey == nil && a.Source != "" {
		a.warn("no site has the directive rate_limit, so that nothing is limited", "rate_limit {, zone login {, limit 5/1m, } and } in a site, each on a line of its own")
	}
	if a.APIKeys != nil {
		a.APIKeys.start(a)
	} else {
		countKeys(nil, nil)
	}
	return nil
}

// Stop implements caddy.App.
func (a *App) Stop() error { return nil }

// Cleanup gives up the instance; the last one to do so closes it, which gives back
// what is unspent.
func (a *App) Cleanup() error {
	if a.running != nil {
		defer a.settle()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	opened := a.instance.Load() != nil && !a.closed
	a.closed = true
	if !opened {
		return nil
	}
	_, err := instances.Delete(a.settings)
	return err
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
