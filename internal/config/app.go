// Package config is the configuration: the types of all options with their user documentation, the
// Caddyfile grammar of each block next to its type, the survey of a whole config, and the compilers
// that translate a config into package enforce.
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
	"github.com/caddy-tally/caddy-tally/internal/engine"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// App is the configuration of the app `rate_limit`: the global option.
type App struct {
	// The store of the counts. Default: `{"engine": "sqlite"}`.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=rate_limit.stores inline_key=engine"`

	// How often expired rows are deleted, at least 1s. Each time, the memory of clients without
	// requests since the last time, and for at least a minute, is freed. Default: 1m.
	CleanupInterval caddy.Duration `json:"cleanup_interval,omitempty"`

	// The most counts in memory, 1000 to 33554432: one per key and limit. In zones that count per
	// `client` each client also takes one for its record, and each network one per limit and one
	// for its pressure: up to four per client with one limit. Further clients are still limited,
	// but each of their requests needs the database. Default: 1000000.
	MaxKeys int `json:"max_keys,omitempty"`

	// How long a request may wait for the database before memory decides alone,
	// at least 1ms. Default: 100ms.
	StoreTimeout caddy.Duration `json:"store_timeout,omitempty"`

	// The share of every limit that is admitted while the database can't be used, in percent from 1
	// to 100. Default: 40.
	DegradedLimit int `json:"degraded_limit,omitempty"`

	// The file with the secret that signs sessions, and seals the key under which names are hashed
	// before they reach the database: its first line, of at least 32 characters. Further lines only
	// verify older signatures, and open what they have sealed.
	// Machines with the same secret recognize one another's sessions. The file is created on first
	// use if it does not exist. Default: `tally.key` beside the database.
	SecretFile string `json:"secret_file,omitempty"`

	// The operators' file of bans and allowances, one per line. It is read again after a change,
	// without a reload; if a line is invalid, the previous rules stay in force. It need not exist.
	// Default: `rate_limit/rules` in Caddy's data directory.
	RulesFile string `json:"rules_file,omitempty"`

	// Lists of addresses that others publish, whose clients are banned. At most 8. Default: none.
	BlockLists []*BlockList `json:"block_lists,omitempty"`

	// Files with the countries or the autonomous systems (AS) of addresses, in the format of MaxMind
	// (`.mmdb`), for `per` `country` and `asn` and the matchers `country` and `asn`. They are read
	// into memory, and again within 10s of a change; if a file can't be used then, its last good
	// version stays in force. The first file with a value for an address counts. Default: none.
	Networks []string `json:"networks,omitempty"`

	// Webhooks that are told of bans and of trouble. At most 8. Default: none.
	Notify []*Notify `json:"notify,omitempty"`

	// Share counts with other regions, each with a store of its own. Default: off.
	Region *Region `json:"region,omitempty"`

	// The points that violations cost.
	Reputation *Reputation `json:"reputation,omitempty"`

	// When clients are banned. Default: never.
	Ban *Ban `json:"ban,omitempty"`

	// Classes of clients with the same limits, for zones with `tiers` or `tier`.
	Tiers []*Tier `json:"tiers,omitempty"`

	// How clients are identified by their API keys, for zones `per` `api_key` or with
	// `tiers`.
	APIKeys *APIKeys `json:"api_keys,omitempty"`

	// How many leading bits of an IPv4 address identify a client, from 1 to 32, unless a zone
	// overrides it. Default: 32.
	IPv4Prefix int `json:"ipv4_prefix,omitempty"`

	// How many leading bits of an IPv6 address identify a client, from 1 to 128, unless a zone
	// overrides it. Default: 64, because a household commonly has a /64 to itself.
	IPv6Prefix int `json:"ipv6_prefix,omitempty"`

	// How many different clients of one network are too many, and how the network is throttled
	// then.
	Pressure *Pressure `json:"pressure,omitempty"`

	// The page that browsers get with a refusal, unless a handler overrides it. Default: a page
	// without a name and a contact.
	Page *Page `json:"page,omitempty"`

	// Let clients earn sessions, which identify them. Default: no sessions.
	Session *Session `json:"session,omitempty"`

	// Don't keep a history of decisions. By default the database keeps counts per zone and limit:
	// per minute for two days, per hour for 90 days and per day for two years. For a week it also
	// keeps the keys with the highest demand in each hour, under names that contain no addresses.
	DisableHistory bool `json:"disable_history,omitempty"`

	// Log a line for each refusal, with the address of the client. Default: no such lines, and
	// other log lines about refusals contain no address.
	DecisionLog *DecisionLog `json:"decision_log,omitempty"`

	// The option's place in a config file, such as `Caddyfile:12`, for messages. The Caddyfile
	// adapter sets it.
	Source string `json:"source,omitempty"`
}

// check returns an error about the first setting that is out of range.
func (a *App) check() error {
	switch {
	case a.CleanupInterval != 0 && time.Duration(a.CleanupInterval) < time.Second:
		return fmt.Errorf("cleanup_interval: must be at least 1s, got %v", time.Duration(a.CleanupInterval))
	case a.MaxKeys != 0 && (a.MaxKeys < 1000 || a.MaxKeys > engine.MostKeys):
		return fmt.Errorf("max_keys: must be between 1000 and %d, got %d", engine.MostKeys, a.MaxKeys)
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
	if err := a.checkBlockLists(); err != nil {
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
	return a.block().Read(d)
}

// block is the syntax of the global option.
func (a *App) block() grammar.Block {
	return grammar.Block{Rules: a.rules, Check: a.check, Mistake: mistake, Misplaced: misplaced}
}

func (a *App) rules() grammar.Rules {
	list, notify, tier := new(BlockList), new(Notify), new(Tier)
	rules := grammar.Rules{
		grammar.Line("store <engine...>", a.unmarshalStore),
		grammar.Line("cleanup_interval <duration>", &a.CleanupInterval),
		grammar.Line("max_keys <n>", &a.MaxKeys),
		grammar.Line("store_timeout <duration>", &a.StoreTimeout),
		grammar.Line("degraded_limit <percent>", percent(&a.DegradedLimit, 100)),
		grammar.Line("secret_file <path>", &a.SecretFile),
		grammar.Line("rules_file <path>", &a.RulesFile),
		grammar.Line("block_list <path>|<url> [every <duration>] [ban <duration>]", &list.Source, &list.Every, &list.Ban).Repeats().Then(func() error {
			a.BlockLists = append(a.BlockLists, list)
			return nil
		}),
		grammar.Line("networks <file...>", &a.Networks).Repeats(),
		grammar.Line("notify <url>", &notify.URL).Repeats().Then(func() error { a.Notify = append(a.Notify, notify); return nil }).With(notify.block()),
	}
	region, session, keys := new(Region), new(Session), new(APIKeys)
	rules = append(rules,
		grammar.Line("region <name>", &region.Name).Then(func() error { a.Region = region; return nil }).With(region.block()),
		grammar.Line("ipv4_prefix <bits>", &a.IPv4Prefix),
		grammar.Line("ipv6_prefix <bits>", &a.IPv6Prefix))
	rules = append(rules, pageRules(&a.Page)...)
	rules = append(rules, grammar.Line("session").Then(func() error { a.Session = session; return nil }).With(session.block()))
	rules = append(rules, pressureRules(&a.Pressure)...)
	rules = append(rules,
		grammar.Line("tier <name>", &tier.Name).Repeats().At(&tier.Source).Then(func() error { a.Tiers = append(a.Tiers, tier); return nil }).With(tier.block()),
		grammar.Line("api_keys").Then(func() error { a.APIKeys = keys; return nil }).With(keys.block()))
	rules = append(rules, reputationRules(&a.Reputation)...)
	return append(rules, grammar.Line("history off").Then(func() error { a.DisableHistory = true; return nil }), banRule(&a.Ban), decisionLogRule(&a.DecisionLog))
}

// percent returns the function for a whole percentage up to a maximum.
func percent(field *int, most int64) func(string) error {
	return func(word string) error {
		n, err := caddyconf.ParseCount(strings.TrimSuffix(word, "%"))
		if err != nil || n < 1 || n > most {
			return fmt.Errorf("must be a whole percentage from 1%% to %d%%, got %q", most, word)
		}
		*field = int(n)
		return nil
	}
}

func (a *App) unmarshalStore(d *caddyfile.Dispenser) (err error) {
	if !d.NextArg() {
		return d.ArgErr()
	}
	engine := d.Val()
	if !isModule("rate_limit.stores." + engine) {
		return unknownStore(d, engine)
	}
	_, a.StoreRaw, err = caddyconf.Module(d, "rate_limit.stores", engine, "engine")
	return err
}
