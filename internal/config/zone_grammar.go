package config

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/routing"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// withMatchers is a function that reads a line with matchers.
type withMatchers func(*caddyfile.Dispenser, MatcherToken) error

// by returns the function for a line whose matchers token reads.
func (read withMatchers) by(token MatcherToken) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error { return read(d, token) }
}

func (z *Zone) unmarshal(d *caddyfile.Dispenser, token MatcherToken) error {
	if err := z.block(token).Read(d); err != nil {
		return err
	}
	return z.checkWords(d)
}

// block is the syntax of a zone. Without words of ours its options are checked when it is compiled.
func (z *Zone) block(token MatcherToken) grammar.Block {
	return grammar.Block{Rules: func() grammar.Rules { return z.rules(token) }, Check: z.checkOptions,
		Counts: z.HasOwnWords, Mistake: mistake, Misplaced: misplaced, Unknown: subdirective}
}

func (z *Zone) rules(token MatcherToken) grammar.Rules {
	var reputation string
	cost, concurrent := new(Cost), new(Concurrent)
	rules := grammar.Rules{
		grammar.Line("match <matcher...>", withMatchers(z.unmarshalMatch).by(token)).Repeats(),
	}
	rules = append(rules, z.whenRules()...)
	rules = append(rules,
		grammar.Line("per "+strings.Join(perKinds, "|"), &z.Per),
		grammar.Line("per key <value>", z.setKey),
		limitRule(func(l Limit) { z.Limits = append(z.Limits, l) }).Repeats(),
		grammar.Line("limit <n> concurrent [wait <duration>] [queue <n>]", amount(&concurrent.Requests), &concurrent.Wait, &concurrent.Queue).Repeats().
			Then(func() error { return z.setConcurrent(concurrent) }),
		grammar.Line("tiers", &z.Tiers),
		grammar.Line("tier <value> [<default>]", &z.Tier, &z.DefaultTier),
		grammar.Line("cost <n>|<placeholder> [<matcher...>]", cost.set, func(d *caddyfile.Dispenser) error { return z.unmarshalCost(d, cost, token) }).Repeats(),
		grammar.Line("max_cost <n>", &z.MaxCost),
		grammar.Line("settle bytes|duration", &z.Settle),
		grammar.Line("settle <placeholder...>", z.setSettle))
	rules = append(rules, z.countRules()...)
	rules = append(rules,
		grammar.Line("read_body [<size>]", bodySize(&z.ReadBody)).Then(func() error {
			z.ReadBody = cmp.Or(z.ReadBody, enforce.DefaultReadBody)
			return nil
		}),
		grammar.Line("on_unreadable_body "+unreadableRefuse+"|"+unreadableEmpty, &z.OnUnreadableBody),
		grammar.Line("on_empty_key "+strings.Join([]string{enforce.EmptyIP, enforce.EmptyShare, enforce.EmptySkip, enforce.EmptyDeny}, "|"), &z.OnEmptyKey),
		grammar.Line("scope "+scopeShared+"|"+ScopeSite, &z.Scope),
		grammar.Line("prefix_ceiling <factor>", &z.PrefixCeiling),
		grammar.Line("shadow", &z.Shadow))
	rules = append(rules, z.onExceededRules()...)
	return append(rules,
		grammar.Line("ipv4_prefix <bits>", peerInt(&z.IPv4Prefix, "zone ipv4_prefix", "ipv4_prefix integer")).Repeats(),
		grammar.Line("ipv6_prefix <bits>", peerInt(&z.IPv6Prefix, "zone ipv6_prefix", "ipv6_prefix integer")).Repeats(),
		grammar.Line("reputation on|off", &reputation).Then(func() error {
			z.EnableReputation, z.DisableReputation = reputation == "on", reputation == "off"
			return nil
		}),
		banRule(&z.Ban),
		grammar.Line("key <value>", z.unmarshalKey).Repeats(),
		grammar.Line("window <duration>", peerDuration(&z.Window, "zone window", "window duration")).Repeats(),
		grammar.Line("events <n>", peerInt(&z.MaxEvents, "zone max events", "max events integer")).Repeats())
}

// setKey sets what the zone counts per.
func (z *Zone) setKey(value string) error {
	if z.Key != "" {
		return fmt.Errorf("zone key already specified: %s", z.Key)
	}
	z.Per, z.Key = enforce.PerKey, value
	return nil
}

// amount returns the function for a number of units.
func amount(field *int64) func(string) error {
	return func(word string) (err error) {
		if *field, err = caddyconf.ParseUnits(word); err != nil {
			return fmt.Errorf("must be a whole number, got %q", word)
		}
		return nil
	}
}

// unmarshalCost reads the matcher of a cost, if there is one.
func (z *Zone) unmarshalCost(d *caddyfile.Dispenser, cost *Cost, token MatcherToken) error {
	set, err := unmarshalMatchers(d, token)
	if err != nil {
		return caddyconf.InLine(d, "cost", err)
	}
	switch {
	case len(set) > 0:
		cost.MatcherSetsRaw = caddyhttp.RawMatcherSets{set}
		z.Costs = append(z.Costs, *cost)
	case z.Cost != "":
		return d.Errf("cost already specified: %s", z.Cost)
	default:
		z.Cost = cost.Cost
	}
	return nil
}

// checkWords checks that the zone has limits, in one of the two forms.
func (z *Zone) checkWords(d *caddyfile.Dispenser) error {
	peer := z.Window != 0 || z.MaxEvents != 0
	tiers := z.Tiers || z.Tier != ""
	switch {
	case z.Tiers && z.Tier != "":
		return d.Err("tiers and tier exclude one another: leave one out")
	case tiers && (len(z.Limits) > 0 || peer):
		return d.Err("limits come from tiers or from the zone: leave one out, or make it two zones")
	case tiers:
		return nil
	case len(z.Limits) > 0 && peer:
		return d.Err("limit excludes window and events: limit 5/1m is the same as window 1m and events 5")
	case len(z.Limits) > 0 || z.Concurrent != nil:
		return nil
	case z.HasOwnWords() && !peer:
		return d.Err("a limit is missing: write limit 5/1m")
	case z.Window == 0 || z.MaxEvents == 0:
		missing := "zone " + z.Name + " {, limit 5/1m and }, each on a line of its own"
		if z.Window != 0 {
			missing = "events 5"
		} else if z.MaxEvents != 0 {
			missing = "window 1m"
		}
		return d.Errf("a rate limit zone requires both a window and maximum events, or a limit: write %s", missing)
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

// set sets the cost to a word.
func (c *Cost) set(word string) error {
	n, err := caddyconf.ParseUnits(word)
	switch c.Cost = word; {
	case err == nil && n >= 0:
		c.Cost = strconv.FormatInt(n, 10)
	case len(routing.PlaceholderNames(word)) == 0:
		return fmt.Errorf("must be a whole number from 0, or a placeholder that holds one, got %q", word)
	}
	return nil
}
