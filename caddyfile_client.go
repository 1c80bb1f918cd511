package tally

import (
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

// unmarshalCeiling reads a factor.
func (z *Zone) unmarshalCeiling(d *caddyfile.Dispenser) error {
	if z.PrefixCeiling != 0 {
		return d.Errf("prefix_ceiling already specified: %d", z.PrefixCeiling)
	}
	return caddyconf.Count(d, &z.PrefixCeiling)
}

// unmarshalPressure reads `pressure off` or a block.
func (a *App) unmarshalPressure(d *caddyfile.Dispenser) error {
	a.Pressure = new(Pressure)
	switch args := d.RemainingArgs(); {
	case len(args) == 1 && args[0] == "off":
		a.Pressure.Disabled = true
		return nil
	case len(args) > 0:
		return d.Errf("pressure: expected off or a block, got %q", args[0])
	}
	return caddyconf.EachChecked(d, a.Pressure.unmarshalOption, a.Pressure.check)
}

func (p *Pressure) unmarshalOption(d *caddyfile.Dispenser) error {
	switch d.Val() {
	case "fingerprints":
		return caddyconf.Count(d, &p.Fingerprints)
	case "within":
		return caddyconf.Duration(d, &p.Within)
	case "squeeze":
		return caddyconf.Duration(d, &p.Squeeze)
	case "up_to":
		return caddyconf.Duration(d, &p.UpTo)
	}
	return d.Errf("pressure: unrecognized option %q: expected fingerprints, within, squeeze or up_to", d.Val())
}

func (z *Zone) unmarshalOnExceeded(d *caddyfile.Dispenser) error {
	if z.OnExceeded != "" {
		return d.Errf("on_exceeded already specified: %s", z.OnExceeded)
	}
	word, err := caddyconf.OneOf(d, onExceededRefuse, onExceededChallenge)
	if err != nil && d.Val() == limitShadow {
		return d.Errf("on_exceeded: must be refuse or challenge, got %q: write shadow into a line of its own", d.Val())
	}
	z.OnExceeded = word
	return err
}

// unmarshalSession reads a block, which may be left out: all of it has defaults.
func (a *App) unmarshalSession(d *caddyfile.Dispenser) error {
	a.Session = new(Session)
	if d.NextArg() {
		return d.Errf("session: expected a block, got %q", d.Val())
	}
	if err := caddyconf.EachChecked(d, a.Session.unmarshalOption, a.Session.check); err != nil {
		return fmt.Errorf("session: %w", err)
	}
	return nil
}

func (s *Session) unmarshalOption(d *caddyfile.Dispenser) error {
	switch d.Val() {
	case "lifetime":
		return caddyconf.Duration(d, &s.Lifetime)
	case "max_sessions_per_prefix":
		return caddyconf.Count(d, &s.MaxPerPrefix)
	case "max_live_sessions_per_prefix":
		return caddyconf.Count(d, &s.MaxLivePerPrefix)
	case "path":
		return caddyconf.String(d, &s.Path)
	case "challenge":
		s.Challenge = new(Challenge)
		return s.Challenge.unmarshal(d)
	}
	return d.Errf("unrecognized option %q: expected lifetime, max_sessions_per_prefix, max_live_sessions_per_prefix, challenge or path", d.Val())
}

// unmarshal reads `challenge proof_of_work [<difficulty>]` or the name of a service, and a
// block.
func (c *Challenge) unmarshal(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 {
		return d.Err("challenge: a value is missing: expected proof_of_work, turnstile, hcaptcha or recaptcha")
	}
	c.Type, args = args[0], args[1:]
	switch {
	case c.Type == proofOfWork && len(args) == 1:
		difficulty, err := caddyconf.ParseCount(args[0])
		if err != nil || difficulty < 1 || difficulty > challenge.MaxDifficulty {
			return d.Errf("challenge: the difficulty must be a number of bits from 1 to %d, got %q", challenge.MaxDifficulty, args[0])
		}
		c.Difficulty = int(difficulty)
	case len(args) > 0:
		return d.Errf("challenge: %s takes no %q here", c.Type, args[0])
	}
	if err := caddyconf.EachOption(d, c.unmarshalOption); err != nil {
		return fmt.Errorf("challenge: %w", err)
	}
	return nil
}

func (c *Challenge) unmarshalOption(d *caddyfile.Dispenser) error {
	switch d.Val() {
	case "site_key":
		return caddyconf.String(d, &c.SiteKey)
	case "secret":
		return caddyconf.String(d, &c.Secret)
	case "without_script":
		return caddyconf.Duration(d, &c.WithoutScript)
	}
	return d.Errf("unrecognized option %q: expected site_key, secret or without_script", d.Val())
}
