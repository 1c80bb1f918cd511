package tally

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/names"
)

// parseHandler sets up a handler from the directive. Named matchers are known
// only here.
func parseHandler(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h := new(Handler)
	h.NoteServers(helper.Option("servers"))
	return h, h.Unmarshal(helper.Dispenser, helper.MatcherToken)
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	rate_limit [<matcher>] {
//		zone <name> {
//			match <matcher...>
//			when everyone|<zone> over <n>/<duration>
//			when upstream slower than <duration>
//			when cpu over <percent>
//			per ip|network|asn|country|domain|everyone|client|api_key
//			per key <value>
//			limit <n>/<duration> [burst <n>] [sliding|fixed|token_bucket] [slots <n>] [timezone <name>] [block <duration> [from the last]] [name <name>] [shadow]
//			limit <n> concurrent [wait <duration>] [queue <n>]
//			tiers
//			tier <value> [<default>]
//			cost <n>|<placeholder> [<matcher...>]
//			max_cost <n>
//			settle bytes|duration
//			settle <placeholder...>
//			count status <status...> [hold [read_body [<size>]]]
//			count when <answer...> [hold [read_body [<size>]]]
//			read_body [<size>]
//			on_unreadable_body refuse|empty
//			on_empty_key ip|share|skip|deny
//			scope shared|site
//			prefix_ceiling <factor>
//			shadow
//			on_exceeded refuse|challenge
//			on_exceeded delay <duration>
//			on_exceeded pass [<field>]
//			ipv4_prefix <bits>
//			ipv6_prefix <bits>
//			reputation on|off
//			ban after <n> violations in <duration> for <duration> [up to <duration>]
//			key <value>
//			window <duration>
//			events <n>
//		}
//		exempt <matcher...>
//		trap [ban <duration>] <matcher...>
//		headers draft|off
//		headers legacy|both [epoch]
//		page off
//		page {
//			name <text>
//			contact <text>
//		}
//		jitter <fraction>
//		log_key
//		log_ip
//		disable_metrics
//		sweep_interval <duration>
//		distributed {
//			read_interval <duration>
//			write_interval <duration>
//			purge_age <duration>
//		}
//		storage <module...>
//	}
//
// A <matcher> is methods, paths and conditions on the query (`match POST /login /signup mode=heavy`), a
// matcher with its values, the @name of one, or a block of matchers. An <answer> is one or more of
// `status <status...>`, `header [!]<field> [<value>]`, `size under|over <size>` and
// `grpc_status <n...>`.
//
// A zone has one or more of `limit`, or `tiers` or `tier`, or both `window` and `events`, the notation
// of `mholt/caddy-ratelimit` for a sliding limit; `key` is its `per key`. As in that module, a zone
// in its notation replaces an earlier zone of the same name, in the same position.
//
// The directive `rate_limit_user` is the same but runs after basic_auth and forward_auth, for zones
// that depend on the user.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return h.Unmarshal(d, unnamedMatchers(d))
}

// unnamedMatchers returns a [config.MatcherToken] for contexts without named matchers.
func unnamedMatchers(d *caddyfile.Dispenser) config.MatcherToken {
	return func() (caddy.ModuleMap, bool, error) {
		set, ok, err := httpcaddyfile.Helper{Dispenser: d}.MatcherToken()
		if err != nil {
			return nil, false, d.Errf("matchers have no names here, got %q: write a block of matchers", d.Val())
		}
		return set, ok, nil
	}
}

var _ caddyfile.Unmarshaler = (*Handler)(nil)

// parseApp sets up the app from the global option.
func parseApp(d *caddyfile.Dispenser, existing any) (any, error) {
	if existing != nil {
		d.Next()
		return nil, d.Err("the global option rate_limit is given twice: write one block")
	}
	app := new(App)
	if err := app.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: names.App, Value: caddyconfig.JSON(app, nil)}, nil
}

// UnmarshalCaddyfile sets up the app from Caddyfile tokens. Syntax:
//
//	rate_limit {
//		store <engine...>
//		cleanup_interval <duration>
//		max_keys <n>
//		store_timeout <duration>
//		degraded_limit <percent>
//		secret_file <path>
//		rules_file <path>
//		block_list <path>|<url> [every <duration>] [ban <duration>]
//		networks <file...>
//		notify <url> {
//			on ban|degraded|refusals|quota...
//			template <text>
//			header <field> <value>
//		}
//		region <name> {
//			exchange <engine...>
//			interval <duration>
//		}
//		ipv4_prefix <bits>
//		ipv6_prefix <bits>
//		page off
//		page {
//			name <text>
//			contact <text>
//		}
//		session {
//			lifetime <duration>
//			max_sessions_per_prefix <n>
//			path <path>
//			challenge proof_of_work [<difficulty>] {
//				without_script <duration>
//			}
//			challenge turnstile|hcaptcha|recaptcha {
//				site_key <key>
//				secret <secret>
//				without_script <duration>
//			}
//		}
//		pressure off
//		pressure {
//			fingerprints <n>
//		}
//		tier <name> {
//			limit <n>/<duration> [burst <n>] [sliding|fixed|token_bucket] [slots <n>] [timezone <name>] [block <duration> [from the last]] [name <name>] [shadow]
//			unlimited
//			service_header <name> <secret>
//		}
//		api_keys {
//			from header <name>
//			from bearer
//			from query <name>
//			from placeholder <value>
//			file <path>
//			store
//			missing deny
//			missing default [<tier>]
//			unknown deny
//			unknown default [<tier>]
//		}
//		reputation off
//		reputation {
//			over_limit <points>
//			forged <points>
//			trap <points>
//		}
//		history off
//		ban after <n> violations in <duration> for <duration> [up to <duration>]
//		decision_log [sample 1/<n>]
//	}
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return a.Unmarshal(d)
}

var _ caddyfile.Unmarshaler = (*App)(nil)
