package tally

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

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
	return httpcaddyfile.App{Name: "rate_limit", Value: caddyconfig.JSON(app, nil)}, nil
}

// UnmarshalCaddyfile sets up the app from Caddyfile tokens. Syntax:
//
//	rate_limit {
//		store            <engine...>
//		cleanup_interval <duration>
//		max_keys         <n>
//		store_timeout    <duration>
//		degraded_limit   <percent>
//		secret_file      <path>
//		rules_file       <path>
//		region <name> {
//			exchange <engine...>
//			interval <duration>
//		}
//		ipv4_prefix      <bits>
//		ipv6_prefix      <bits>
//		page             off
//		page {
//			name    <text>
//			contact <text>
//		}
//		session {
//			lifetime                <duration>
//			max_sessions_per_prefix <n>
//			max_live_sessions_per_prefix <n>
//			path                    <path>
//			challenge proof_of_work [<difficulty>] {
//				without_script <duration>
//			}
//			challenge turnstile|hcaptcha|recaptcha {
//				site_key <key>
//				secret   <secret>
//				without_script <duration>
//			}
//		}
//		pressure         off
//		pressure {
//			fingerprints <n>
//			within       <duration>
//			squeeze      <duration>
//			up_to        <duration>
//		}
//		tier <name> {
//			limit          <n>/<duration> [burst <n>] [sliding|fixed|token_bucket] [slots <n>] [timezone <name>] [name <name>]
//			unlimited
//			service_header <name> <secret>
//		}
//		api_keys {
//			from    header <name>|bearer|query <name>|placeholder <value>
//			file    <path>
//			missing deny|default <tier>
//			unknown deny|default [<tier>]
//		}
//		reputation       off
//		reputation {
//			over_limit <points>
//			forged     <points>
//			trap       <points>
//		}
//		history          off
//		ban              after <n> violations in <duration> for <duration> [up to <duration>]
//		decision_log     [sample 1/<n>]
//	}
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
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

var _ caddyfile.Unmarshaler = (*App)(nil)
