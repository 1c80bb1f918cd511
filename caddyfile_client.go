package tally

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// unmarshalCeiling reads a factor.
func (z *Zone) unmarshalCeiling(d *caddyfile.Dispenser) error {
	if z.PrefixCeiling != 0 {
		return z.errf(d, "prefix_ceiling already specified: %d", z.PrefixCeiling)
	}
	if err := unmarshalCount(d, &z.PrefixCeiling); err != nil {
		return z.errf(d, "%w", err)
	}
	return nil
}

// unmarshalPressure reads `pressure off` or a block.
func (a *App) unmarshalPressure(d *caddyfile.Dispenser) error {
	a.Pressure = new(Pressure)
	switch args := d.RemainingArgs(); {
	case len(args) == 1 && args[0] == "off":
		a.Pressure.Disabled = true
		return nil
	case len(args) > 0:
		return d.Errf("pressure: off or a block would do, got %q", args[0])
	}
	return eachOption(d, a.Pressure.unmarshalOption)
}

func (p *Pressure) unmarshalOption(d *caddyfile.Dispenser) error {
	switch d.Val() {
	case "fingerprints":
		return unmarshalCount(d, &p.Fingerprints)
	case "within":
		return unmarshalDuration(d, &p.Within)
	case "squeeze":
		return unmarshalDuration(d, &p.Squeeze)
	case "up_to":
		return unmarshalDuration(d, &p.UpTo)
	}
	return d.Errf("pressure: unrecognized option %q: fingerprints, within, squeeze or up_to would do", d.Val())
}
