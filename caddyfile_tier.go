package tally

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

// unmarshalTier reads a tier:
//
//	tier <name> {
//		limit          <n>/<duration> […]
//		unlimited
//		service_header <name> <secret>
//	}
func (a *App) unmarshalTier(d *caddyfile.Dispenser) error {
	t := &Tier{Source: caddyconf.Source(d)}
	if !d.AllArgs(&t.Name) {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if err := t.unmarshalOption(d); err != nil {
			return d.Errf("tier %q: %w", t.Name, err)
		}
	}
	switch {
	case t.Unlimited && len(t.Limits) > 0:
		return d.Errf("tier %q: unlimited excludes limits: leave one out", t.Name)
	case !t.Unlimited && len(t.Limits) == 0:
		return d.Errf("tier %q: a limit is missing: write limit 5/1m or unlimited", t.Name)
	}
	a.Tiers = append(a.Tiers, t)
	return nil
}

func (t *Tier) unmarshalOption(d *caddyfile.Dispenser) error {
	option, args := d.Val(), d.RemainingArgs()
	switch option {
	case "limit":
		limit, err := parseLimit(args)
		if err != nil {
			return fmt.Errorf("limit: %w", err)
		}
		t.Limits = append(t.Limits, limit)
	case "unlimited":
		if len(args) > 0 {
			return fmt.Errorf("unlimited takes no value, got %q", args[0])
		}
		t.Unlimited = true
	case "service_header":
		if len(args) != 2 {
			return fmt.Errorf("service_header takes a name and a secret, got %d values: write service_header X-Service-Token {env.SERVICE_TOKEN}", len(args))
		}
		if t.ServiceHeader != nil {
			return fmt.Errorf("service_header is given twice: write it once")
		}
		t.ServiceHeader = &ServiceHeader{Name: args[0], Secret: args[1]}
	case limitShadow:
		return errors.New("shadow stands behind a limit of a tier: write limit 5/1m shadow")
	default:
		return fmt.Errorf("unrecognized option %q: expected limit, unlimited or service_header", option)
	}
	return nil
}

// unmarshalAPIKeys reads the block of API keys:
//
//	api_keys {
//		from    header <name>|bearer|query <name>|placeholder <value>
//		file    <path>
//		store
//		missing deny|default <tier>
//		unknown deny|default [<tier>]
//	}
func (a *App) unmarshalAPIKeys(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	a.APIKeys = new(APIKeys)
	return caddyconf.EachOption(d, a.APIKeys.unmarshalOption, "from")
}

func (k *APIKeys) unmarshalOption(d *caddyfile.Dispenser) error {
	switch d.Val() {
	case "from":
		return k.unmarshalFrom(d)
	case "file":
		return caddyconf.String(d, &k.File)
	case "store":
		k.Store = true
		if d.NextArg() {
			return d.Errf("api_keys: store takes no value, got %q", d.Val())
		}
		return nil
	case "missing":
		return k.unmarshalWithout(d, &k.Missing)
	case "unknown":
		return k.unmarshalWithout(d, &k.Unknown)
	}
	return d.Errf("api_keys: unrecognized option %q: expected from, file, store, missing or unknown", d.Val())
}

func (k *APIKeys) unmarshalFrom(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 {
		return d.Err("api_keys: from: a value is missing: expected header <name>, bearer, query <name> or placeholder <value>")
	}
	s := KeySource{Type: args[0]}
	switch {
	case s.Type != enforce.FromHeader && s.Type != enforce.FromBearer && s.Type != enforce.FromQuery && s.Type != enforce.FromPlaceholder:
		return d.Errf("api_keys: from: must be header, bearer, query or placeholder, got %q", s.Type)
	case s.Type == enforce.FromBearer && len(args) > 1:
		return d.Errf("api_keys: from bearer takes no value, got %q", args[1])
	case s.Type != enforce.FromBearer && len(args) != 2:
		return d.Errf("api_keys: from %s takes one value, got %d", s.Type, len(args)-1)
	case s.Type != enforce.FromBearer:
		s.Name = args[1]
	}
	checked := s // which provision completes, and the config doesn't need
	if _, err := checked.provision(); err != nil {
		return d.Errf("api_keys: from: %w", err)
	}
	k.From = append(k.From, s)
	return nil
}

// unmarshalWithout reads what to do with a request without a known key.
func (k *APIKeys) unmarshalWithout(d *caddyfile.Dispenser, field *string) error {
	option, args := d.Val(), d.RemainingArgs()
	switch {
	case len(args) == 1 && args[0] == enforce.KeyDeny:
	case len(args) == 1 && args[0] == enforce.KeyDefault: // of the other option
	case len(args) == 2 && args[0] == enforce.KeyDefault:
		if k.DefaultTier != "" && k.DefaultTier != args[1] {
			return d.Errf("api_keys: %s: the default tier is %q already, got %q: there is one", option, k.DefaultTier, args[1])
		}
		k.DefaultTier = args[1]
	default:
		return d.Errf("api_keys: %s: must be deny or default <tier>, got %q", option, args)
	}
	*field = args[0]
	return nil
}
