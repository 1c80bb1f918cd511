package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/routing"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// withMatchers is a function that reads a line with matchers.
type withMatchers func(*caddyfile.Dispenser, MatcherToken) error

// by returns the function for a line whose matchers token reads.
func (read withMatchers) by(token MatcherToken) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error { return read(d, token) }
}

func (z *Zone) unmarshal(d *caddyfile.Dispenser, token MatcherToken) error {
	options := z.options(token)
	line := func(d *caddyfile.Dispenser) error {
		if known, err := options.read(d); known {
			return err
		}
		if d.Val() == "burst" && z.MaxEvents > 0 && z.Window > 0 {
			return d.Errf("burst stands behind a limit: write limit %d/%s %s instead of events, window and burst", z.MaxEvents, wording.Duration(time.Duration(z.Window)), strings.Join(append([]string{"burst"}, d.RemainingArgs()...), " "))
		}
		return unrecognized(d, "unrecognized subdirective '"+d.Val()+"'", options.words())
	}
	wrong, err := caddyconf.EachLine(d, line, z.checkOptions)
	if err != nil {
		return err
	}
	if wrong != nil && z.hasOwnWords() { // others are checked when they are compiled
		return wrong
	}
	return z.checkWords(d)
}

func (z *Zone) options(token MatcherToken) blockOptions {
	return blockOptions{
		{"match", withMatchers(z.unmarshalMatch).by(token)},
		{"when", z.unmarshalWhen},
		{"per", z.unmarshalPer},
		{"limit", z.unmarshalLimit},
		{"tiers", z.unmarshalTiers},
		{"tier", z.unmarshalTier},
		{"cost", withMatchers(z.unmarshalCost).by(token)},
		{"max_cost", z.unmarshalMaxCost},
		{"settle", z.unmarshalSettle},
		{"count", z.unmarshalCount},
		{"on_empty_key", word(&z.OnEmptyKey, enforce.EmptyIP, enforce.EmptyShare, enforce.EmptySkip, enforce.EmptyDeny)},
		{"read_body", z.unmarshalReadBody},
		{"on_unreadable_body", word(&z.OnUnreadableBody, unreadableRefuse, unreadableEmpty)},
		{"prefix_ceiling", z.unmarshalCeiling},
		{"on_exceeded", z.unmarshalOnExceeded},
		{"scope", word(&z.Scope, scopeShared, scopeSite)},
		{"shadow", z.unmarshalShadow},
		{"ipv4_prefix", peerInt(&z.IPv4Prefix, "zone ipv4_prefix", "ipv4_prefix integer")},
		{"ipv6_prefix", peerInt(&z.IPv6Prefix, "zone ipv6_prefix", "ipv6_prefix integer")},
		{"reputation", z.unmarshalReputation},
		{"ban", to(unmarshalBan, &z.Ban)},
		{"key", z.unmarshalKey},
		{"window", peerDuration(&z.Window, "zone window", "window duration")},
		{"events", peerInt(&z.MaxEvents, "zone max events", "max events integer")},
	}
}

// checkWords checks that the zone has limits, in one of the two forms.
func (z *Zone) checkWords(d *caddyfile.Dispenser) error {
	peer := z.Window != 0 || z.MaxEvents != 0
	tiers := z.Tiers || z.Tier != ""
	switch {
	case tiers && (len(z.Limits) > 0 || peer):
		return d.Err("limits come from tiers or from the zone: leave one out, or make it two zones")
	case tiers:
		return nil
	case len(z.Limits) > 0 && peer:
		return d.Err("limit excludes window and events: limit 5/1m is the same as window 1m and events 5")
	case len(z.Limits) > 0 || z.Concurrent != nil:
		return nil
	case z.hasOwnWords() && !peer:
		return d.Err("a limit is missing: write limit 5/1m")
	case z.Window == 0 || z.MaxEvents == 0:
		return d.Errf("a rate limit zone requires both a window and maximum events, or a limit: write zone %s {, limit 5/1m and }, each on a line of its own", z.Name)
	}
	return nil
}

// unmarshalMatch adds a matcher set.
func (z *Zone) unmarshalMatch(d *caddyfile.Dispenser, token MatcherToken) error {
	set, err := unmarshalMatchers(d, token)
	if err != nil {
		return caddyconf.InLine(d, "failed to parse match", err)
	}
	z.MatcherSetsRaw = append(z.MatcherSetsRaw, set)
	return nil
}

func (z *Zone) unmarshalPer(d *caddyfile.Dispenser) error {
	if z.Per != "" {
		return d.Errf("per already specified: %s", z.Per)
	}
	args := d.RemainingArgs()
	switch {
	case len(args) == 0:
		return d.Err("per: a value is missing: expected " + strings.Join(perKinds, ", ") + " or key <value>")
	case args[0] == enforce.PerKey:
		return z.setPerKey(d, args[1:])
	case !slices.Contains(perKinds, args[0]):
		return d.Errf("unknown per %q: write %s", args[0], insteadOfPer(args))
	case args[0] == enforce.PerIP && len(args) > 1:
		return d.Errf("per ip takes no value, got %q: write ipv4_prefix 24 into a line of its own for how much of an address counts", args[1])
	case len(args) > 1:
		return d.Errf("per %s takes no value, got %q", args[0], args[1])
	}
	z.Per = args[0]
	return nil
}

func (z *Zone) setPerKey(d *caddyfile.Dispenser, values []string) error {
	if len(values) != 1 {
		write := "{http.request.header.X-Tenant}"
		if len(values) == 2 && values[0] == "header" {
			write = "{http.request.header." + values[1] + "}"
		} else if len(values) > 1 {
			write = `"` + strings.Join(values, " ") + `"`
		}
		return d.Errf("per key takes one value, got %d: write per key %s", len(values), write)
	}
	if z.Key != "" {
		return d.Errf("zone key already specified: %s", z.Key)
	}
	z.Per, z.Key = "key", values[0]
	return nil
}

func (z *Zone) unmarshalKey(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	if z.Key != "" {
		return d.Errf("zone key already specified: %s", z.Key)
	}
	z.Key = d.Val()
	return nil
}

func (z *Zone) unmarshalTiers(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.Errf("tiers takes no value, got %q: tier <value> takes the name of one from elsewhere", d.Val())
	}
	if z.Tier != "" {
		return d.Err("tiers and tier exclude one another: leave one out")
	}
	z.Tiers = true
	return nil
}

func (z *Zone) unmarshalTier(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	switch {
	case z.Tiers || z.Tier != "":
		return d.Err("the tier is given already: write it once")
	case len(args) < 1 || len(args) > 2 || slices.Contains(args, ""):
		return d.Errf("tier takes the name of a tier and optionally a default, got %d values: write tier {http.vars.plan} free", len(args))
	}
	z.Tier, z.DefaultTier = args[0], append(args, "")[1]
	return nil
}

// unmarshalCost reads the cost of requests, or of matching requests if there is a matcher.
func (z *Zone) unmarshalCost(d *caddyfile.Dispenser, token MatcherToken) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	cost := d.Val()
	if n, err := caddyconf.ParseUnits(cost); err == nil && n >= 0 {
		cost = strconv.FormatInt(n, 10)
	} else if len(routing.PlaceholderNames(cost)) == 0 {
		write := "cost 10"
		if rest := d.RemainingArgs(); len(rest) > 0 {
			if n, err := strconv.ParseUint(rest[len(rest)-1], 10, 63); err == nil { // the cost is last
				write = fmt.Sprintf("cost %d %s", n, strings.Join(append([]string{cost}, rest[:len(rest)-1]...), " "))
			}
		}
		return d.Errf("cost: must be a whole number from 0, or a placeholder that holds one, got %q: write %s", cost, write)
	}
	set, err := unmarshalMatchers(d, token)
	if err != nil {
		return caddyconf.InLine(d, "cost", err)
	}
	switch {
	case len(set) > 0:
		z.Costs = append(z.Costs, Cost{MatcherSetsRaw: caddyhttp.RawMatcherSets{set}, Cost: cost})
	case z.Cost != "":
		return d.Errf("cost already specified: %s", z.Cost)
	default:
		z.Cost = cost
	}
	return nil
}

func (z *Zone) unmarshalMaxCost(d *caddyfile.Dispenser) error {
	if z.MaxCost != 0 {
		return d.Errf("max_cost already specified: %d", z.MaxCost)
	}
	var arg string
	if !d.AllArgs(&arg) {
		return d.ArgErr()
	}
	n, err := caddyconf.ParseUnits(arg)
	if err != nil || n < 1 {
		return d.Errf("max_cost: must be a whole number above zero such as 100, got %q", arg)
	}
	z.MaxCost = n
	return nil
}

// unmarshalCeiling reads a factor.
func (z *Zone) unmarshalCeiling(d *caddyfile.Dispenser) error {
	if z.PrefixCeiling != 0 {
		return d.Errf("prefix_ceiling already specified: %d", z.PrefixCeiling)
	}
	return caddyconf.Count(d, &z.PrefixCeiling)
}

func (z *Zone) unmarshalShadow(d *caddyfile.Dispenser) error {
	if args := d.RemainingArgs(); len(args) > 0 {
		return d.Errf("shadow takes no value, got %q: it is for all limits of the zone; write it behind one, limit 5/1m shadow, for that one alone", args[0])
	}
	if z.Shadow {
		return d.Err("shadow already specified")
	}
	z.Shadow = true
	return nil
}
