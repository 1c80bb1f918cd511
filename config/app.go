// Package config is the configuration: the types of all options, whose comments are the
// documentation for users, the grammar of each block of a Caddyfile beside its type, the checks with
// their advice, and the compilers that make of a config what runs (package enforce).
//
// Nothing here decides about a request, and compiling opens nothing: see [App.Compile] and
// [Compiler.Handler].
package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

// App is the configuration of the app `rate_limit`: the global option.
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
	if err := a.Page.check(); err != nil {
		return err
	}
	return a.Ban.check()
}

// Unmarshal sets up the app from Caddyfile tokens.
func (a *App) Unmarshal(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	a.Source = caddyconf.Source(d)
	if d.NextArg() {
		return d.ArgErr()
	}
	return caddyconf.EachChecked(d, a.unmarshalOption, a.check, "tier")
}

func (a *App) unmarshalOption(d *caddyfile.Dispenser) error {
	switch d.Val() {
	case "store":
		return a.unmarshalStore(d)
	case "cleanup_interval":
		return caddyconf.Duration(d, &a.CleanupInterval)
	case "max_keys":
		return caddyconf.Count(d, &a.MaxKeys)
	case "store_timeout":
		return caddyconf.Duration(d, &a.StoreTimeout)
	case "degraded_limit":
		return a.unmarshalDegradedLimit(d)
	case "secret_file":
		return caddyconf.String(d, &a.SecretFile)
	case "rules_file":
		return caddyconf.String(d, &a.RulesFile)
	case "region":
		return a.unmarshalRegion(d)
	case "ipv4_prefix":
		return caddyconf.Count(d, &a.IPv4Prefix)
	case "ipv6_prefix":
		return caddyconf.Count(d, &a.IPv6Prefix)
	case "page":
		return unmarshalPage(d, &a.Page)
	case "session":
		return a.unmarshalSession(d)
	case "pressure":
		return a.unmarshalPressure(d)
	case "reputation":
		return a.unmarshalReputation(d)
	case "ban":
		return unmarshalBan(d, &a.Ban)
	case "history":
		_, err := caddyconf.OneOf(d, "off")
		a.DisableHistory = err == nil
		return err
	case "tier":
		return a.unmarshalTier(d)
	case "api_keys":
		return a.unmarshalAPIKeys(d)
	case "decision_log":
		return a.unmarshalDecisionLog(d)
	}
	return unrecognized(d, fmt.Sprintf("unrecognized option %q", d.Val()), appWords)
}

func (a *App) unmarshalStore(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	engine := d.Val()
	if !isModule("rate_limit.stores." + engine) {
		return unknownStore(d, engine)
	}
	store, err := caddyfile.UnmarshalModule(d, "rate_limit.stores."+engine)
	if err != nil {
		return err
	}
	a.StoreRaw, err = caddyconf.ModuleJSON(d, store, "engine", engine)
	return err
}

func (a *App) unmarshalDegradedLimit(d *caddyfile.Dispenser) error {
	var arg string
	if !d.AllArgs(&arg) {
		return d.ArgErr()
	}
	percent, err := caddyconf.ParseCount(strings.TrimSuffix(arg, "%"))
	if err != nil || percent < 1 || percent > 100 {
		return d.Errf("degraded_limit: must be a whole percentage from 1%% to 100%%, got %q", arg)
	}
	a.DegradedLimit = int(percent)
	return nil
}
