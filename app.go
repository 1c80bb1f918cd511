package tally

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

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

	knowsClients bool              // whether anything depends on who a request is from
	services     []service         // known by a header field
	zoneNames    map[uint32]string // by the hash of the name that violations hold

	lasts map[storage.LimitID]*time.Duration // how long what limits count is remembered, see limit

	store    Store
	settings settings
	zones    bool            // whether any handler has any
	warned   map[string]bool // what was warned of already
	survey   *survey         // of all handlers' configs; nil before the first is provisioned
	claims   sync.Once       // a request's address was one that its client may have chosen
	log      *zap.Logger

	running  chan struct{} // closed when it is known whether the configuration runs
	runsOnce sync.Once     // closes running

	mu       sync.Mutex
	instance atomic.Pointer[instance] // written under mu; nil until it is needed
	closed   bool                     // guarded by mu
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

// provisionFiles decides where the database, the secret and the daily keys are kept.
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

// loadStore loads the module that keeps the counts.
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

// check returns an error about the first setting that is out of its range.
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

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
