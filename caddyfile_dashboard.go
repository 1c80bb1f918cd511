package tally

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("rate_limit_dashboard", parseDashboard)
	httpcaddyfile.RegisterDirectiveOrder("rate_limit_dashboard", httpcaddyfile.Before, "request_header") // behind rate_limit_user
}

// parseDashboard sets up the dashboard from the directive. Named matchers are known only
// here.
func parseDashboard(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	d := new(Dashboard)
	return d, d.unmarshal(helper.Dispenser, helper.MatcherToken)
}

// UnmarshalCaddyfile sets up the dashboard from Caddyfile tokens. Syntax:
//
//	rate_limit_dashboard [<matcher>] {
//		read_only
//		writable
//		allow <matcher>, as for match
//	}
func (db *Dashboard) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return db.unmarshal(d, unnamedMatchers(d))
}

func (db *Dashboard) unmarshal(d *caddyfile.Dispenser, token matcherToken) error {
	var mode string
	for d.Next() {
		db.Source = caddyconf.Source(d)
		if d.NextArg() {
			return d.Errf("rate_limit_dashboard: got %q: expected a matcher such as /limits/*, or none, and a block: write rate_limit_dashboard {, and %[1]s on a line of its own", d.Val())
		}
		for nesting := d.Nesting(); d.NextBlock(nesting); {
			if err := db.unmarshalOption(d, token, &mode); err != nil {
				return err
			}
		}
	}
	return nil
}

// unmarshalOption reads one line or block. mode is what was said of changes before.
func (db *Dashboard) unmarshalOption(d *caddyfile.Dispenser, token matcherToken, mode *string) error {
	switch word := d.Val(); word {
	case "read_only", "writable":
		if d.NextArg() {
			return d.Errf("rate_limit_dashboard: %s: expected nothing behind it, got %q", word, d.Val())
		}
		if *mode != "" {
			return d.Errf("rate_limit_dashboard: got %s after %s: expected one of read_only and writable", word, *mode)
		}
		*mode, db.Writable = word, word == "writable"
		return nil
	case "allow":
		return db.unmarshalAllow(d, token)
	default:
		return d.Errf("rate_limit_dashboard: unrecognized option %q: expected read_only, writable or allow", word)
	}
}

func (db *Dashboard) unmarshalAllow(d *caddyfile.Dispenser, token matcherToken) error {
	set, err := unmarshalMatchers(d, token)
	if err != nil {
		return caddyconf.InLine(d, "rate_limit_dashboard: allow", err)
	}
	if len(set) == 0 {
		return d.Err("rate_limit_dashboard: allow: a matcher is missing: write allow client_ip 192.0.2.0/24")
	}
	db.AllowRaw = append(db.AllowRaw, set)
	return nil
}

// Interface guards
var _ caddyfile.Unmarshaler = (*Dashboard)(nil)
