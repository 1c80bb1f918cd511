package config

import (
	"encoding/json"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddytls"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/enforce"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// Permission limits how many new certificates are obtained on demand.
type Permission struct {
	Handler

	// Another module, which must permit a name first. A name that it denies uses up nothing. Default:
	// every name is permitted.
	PermissionRaw json.RawMessage `json:"permission,omitempty" caddy:"namespace=tls.permission inline_key=module"`
}

// Unmarshal reads the block of the module.
func (p *Permission) Unmarshal(d *caddyfile.Dispenser, token MatcherToken) error {
	return p.unmarshal(d, token, grammar.Line("permission <module...>", func(d *caddyfile.Dispenser) (err error) {
		if !d.NextArg() || p.PermissionRaw != nil {
			return d.Err("permission: write one line such as permission http http://127.0.0.1:9123/ask")
		}
		_, p.PermissionRaw, err = caddyconf.Module(d, "tls.permission", d.Val(), "module")
		return err
	}))
}

// Compile compiles the module, and loads the other one, which is nil if there is none.
func (p *Permission) Compile(ctx caddy.Context, c *Compiler) (h *enforce.Handler, other caddytls.OnDemandPermission,
	err error) {
	for _, z := range p.Zones {
		if word := z.beyondNames(); word != "" {
			err := fmt.Errorf("zone %q: %s: there is no request yet when a certificate is needed: leave it out, and count per ip, network or domain", z.Name, word)
			return nil, nil, caddyconf.AtSource(err, z.Source)
		}
	}
	if p.PermissionRaw != nil {
		module, err := ctx.LoadModule(p, "PermissionRaw")
		if err != nil {
			return nil, nil, fmt.Errorf("loading the other permission: %w", err)
		}
		other = module.(caddytls.OnDemandPermission)
	}
	own := *c // the sites are looked at by their handlers
	own.survey, own.Run.Used = emptySurvey(c.App, c.Run), true
	h, err = own.Handler(ctx, &p.Handler)
	return h, other, err
}

// beyondNames returns the word of an option that needs more than a name and an address.
func (z *Zone) beyondNames() string {
	switch {
	case z.Concurrent != nil:
		return "limit … concurrent"
	case z.OnExceeded == OnExceededChallenge || z.OnExceeded == OnExceededDelay:
		return "on_exceeded " + z.OnExceeded
	case z.Settle != "":
		return "settle"
	case z.Count != nil:
		return "count"
	case z.Tiers || z.Tier != "":
		return "tiers"
	case z.Per == enforce.PerClient || z.Per == enforce.PerAPIKey:
		return "per " + z.Per
	}
	return ""
}
