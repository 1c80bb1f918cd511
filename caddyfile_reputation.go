package tally

import (
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
)

// unmarshalReputation reads `reputation off` or a block of points.
func (a *App) unmarshalReputation(d *caddyfile.Dispenser) error {
	a.Reputation = new(Reputation)
	switch args := d.RemainingArgs(); {
	case len(args) == 1 && args[0] == "off":
		a.Reputation.Disabled = true
		return nil
	case len(args) > 0:
		return d.Errf("reputation: expected off or a block, got %q", args[0])
	}
	return caddyconf.EachChecked(d, a.Reputation.unmarshalOption, a.Reputation.check)
}

func (r *Reputation) unmarshalOption(d *caddyfile.Dispenser) error {
	switch d.Val() {
	case "over_limit":
		return unmarshalPoints(d, &r.OverLimit)
	case "forged":
		return unmarshalPoints(d, &r.Forged)
	case "trap":
		return unmarshalPoints(d, &r.Trap)
	}
	return d.Errf("unrecognized option %q: expected over_limit, forged or trap", d.Val())
}

// unmarshalReputation reads `reputation off`.
func (z *Zone) unmarshalReputation(d *caddyfile.Dispenser) error {
	_, err := caddyconf.OneOf(d, "off")
	z.DisableReputation = err == nil
	return err
}

func unmarshalPoints(d *caddyfile.Dispenser, field **int) error {
	option, arg := d.Val(), ""
	if !d.AllArgs(&arg) {
		return d.ArgErr()
	}
	points, err := strconv.Atoi(arg)
	if err != nil || points < 0 || points > 100 {
		return d.Errf("%s: must be a number of points from 0 to 100, got %q", option, arg)
	}
	*field = &points
	return nil
}

// unmarshalBan reads `ban after <n> violations in <duration> for <duration> [up
// to <duration>]`.
func unmarshalBan(d *caddyfile.Dispenser, field **Ban) error {
	if *field != nil {
		return d.Err("ban is given twice: write it once")
	}
	const form = "ban after 5 violations in 10m for 1h"
	args := d.RemainingArgs()
	words := map[int]string{0: "after", 2: "violations", 3: "in", 5: "for", 7: "up", 8: "to"}
	if len(args) != 7 && len(args) != 10 {
		return d.Errf("ban: got %q: expected %s, or the same with `up to 24h` at its end", strings.Join(args, " "), form)
	}
	if args[2] == "violation" {
		args[2] = "violations"
	}
	for i, word := range words {
		if i < len(args) && args[i] != word {
			return d.Errf("ban: expected %q, got %q: write %s", word, args[i], form)
		}
	}
	ban := new(Ban)
	after, err := caddyconf.ParseCount(args[1])
	if err != nil {
		return d.Errf("ban: expected a number of violations, got %q: write %s", args[1], form)
	}
	ban.After = int(min(max(after, -1), 1<<20))
	for i, to := range map[int]*caddy.Duration{4: &ban.Within, 6: &ban.For, 9: &ban.UpTo} {
		if i >= len(args) {
			continue
		}
		duration, err := caddy.ParseDuration(args[i])
		if err != nil {
			return d.Errf("ban: must be a duration such as 10m or 24h, got %q", args[i])
		}
		*to = caddy.Duration(duration)
	}
	if err := ban.check(); err != nil {
		return d.WrapErr(err)
	}
	*field = ban
	return nil
}

// unmarshalTrap reads `trap [ban <duration>] <matcher>`, or the same with a
// block of matchers.
func (h *Handler) unmarshalTrap(d *caddyfile.Dispenser, token matcherToken) error {
	t := &Trap{Source: caddyconf.Source(d)}
	if d.NextArg() {
		if d.Val() == "ban" {
			if !d.NextArg() {
				return d.Err("trap: the duration of the ban is missing: write `trap ban 24h /wp-login.php`")
			}
			duration, err := caddy.ParseDuration(d.Val())
			if err != nil {
				word, rest := d.Val(), d.RemainingArgs()
				if matcher.IsMatcher(word) || strings.HasPrefix(word, "/") {
					rest = append([]string{word}, rest...)
				}
				return d.Errf("trap: ban must be a duration such as 1h or 24h, got %q: write trap ban 24h %s", word, strings.Join(rest, " "))
			}
			t.Ban = caddy.Duration(duration)
		} else {
			d.Prev()
		}
	}
	set, err := unmarshalMatchers(d, token)
	if err != nil {
		return caddyconf.InLine(d, "trap", err)
	}
	if len(set) == 0 {
		return d.Err("trap: a matcher is missing: write trap /wp-login.php")
	}
	if err := matcher.CheckSet(set); err != nil {
		return d.Errf("trap: %w", err)
	}
	t.MatcherSetsRaw = caddyhttp.RawMatcherSets{set}
	h.Traps = append(h.Traps, t)
	return nil
}
