package tally

import (
	"encoding/json"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/operations"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
)

// App keeps the counts of all `rate_limit` handlers and decides about their
// requests. It need not be configured: every option has a default.
type App struct {
	// Where the counts are kept. Default: `{"engine": "sqlite"}`.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=rate_limit.stores inline_key=engine"`

	// How often expired rows are deleted, at least 1s. Memory of clients that sent
	// nothing since the last time, and for a minute, is given back. Default: 1m.
	CleanupInterval caddy.Duration `json:"cleanup_interval,omitempty"`

	// How many counts are held in memory, at least 1000: one per key and limit. In
	// zones that count per `client` each client also has one for its record, and
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

	// The file of bans and allowances that operators write, one per line. It is read again
	// when it has changed, without a reload; a bad line leaves in force what was. It need
	// not exist. Default: `rate_limit/rules` in Caddy's data directory.
	RulesFile string `json:"rules_file,omitempty"`

	// Share counts with other regions, each with a store of its own. Default: they don't.
	Region *Region `json:"region,omitempty"`

	// What violations cost, and that they do.
	Reputation *Reputation `json:"reputation,omitempty"`

	// When clients are banned. Default: never.
	Ban *Ban `json:"ban,omitempty"`

	// Classes of clients that have the same limits, for zones with `tiers` or
	// `tier`.
	Tiers []*Tier `json:"tiers,omitempty"`

	// How clients are identified by their API keys, for zones `per` `api_key` or with
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

	// The page that browsers get with a refusal, for handlers that don't say otherwise. Default:
	// one without a name and a contact.
	Page *Page `json:"page,omitempty"`

	// Let clients earn sessions, by which they are known again. Default: none do.
	Session *Session `json:"session,omitempty"`

	// Don't keep a history of what is decided. By default counts per zone and limit are
	// kept in the database: per minute for two days, per hour for 90 days and per day for
	// two years; and for a week the keys of each hour that wanted most, under names that
	// tell no addresses.
	DisableHistory bool `json:"disable_history,omitempty"`

	// Write a line for each refusal to the log, with the address of the client. Default: none
	// is written, and what is logged of refusals holds no address.
	DecisionLog *DecisionLog `json:"decision_log,omitempty"`

	// Where the option is in a config file, such as `Caddyfile:12`, for messages. The
	// Caddyfile adapter notes it.
	Source string `json:"source,omitempty"`

	run *enforce.Config

	retentions map[storage.LimitID]*time.Duration // how long what limits count is remembered, see limit

	unwatchRules func()          // nil unless the file is being watched
	warned       map[string]bool // what was warned of already
	survey       *survey         // of all handlers' configs; nil before the first is provisioned
	log          *zap.Logger
}

func init() {
	caddy.RegisterModule(new(App))
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "rate_limit",
		New: func() caddy.Module { return new(App) },
	}
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)

// runningApp returns the app of the configuration that runs, or nil if it has none.
func runningApp() *enforce.Config {
	app, err := caddy.ActiveContext().AppIfConfigured("rate_limit")
	if err != nil {
		return nil
	}
	return app.(*App).run
}

// started is when this process began.
var started = time.Now()

// runningService returns what operators see and do.
func runningService() operator.Service {
	return operations.New(runningApp, runningVersions().Module, started)
}

// Enforcer returns what all handlers of the config share while it runs.
func (a *App) Enforcer() *enforce.Config { return a.run }
