package config

import (
	"cmp"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/identity/pressure"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// Pressure says when too many different clients come from one network: a script
// that invents a new browser for every request, most likely. Such a network is
// squeezed: all its clients that are not verified have half of one client's
// limits together, in every zone that counts per client. Verified clients in it
// notice nothing.
type Pressure struct {
	// Squeeze no network.
	Disabled bool `json:"disabled,omitempty"`

	// More than so many clients that say different things of themselves, their
	// language aside, are too many, from 1 to 31. Default: 20.
	Fingerprints int `json:"fingerprints,omitempty"`

	// The time in which they must come, from 1s to 24h. Default: 10m.
	Within caddy.Duration `json:"within,omitempty"`

	// How long a network is squeezed, from 1s to 366 days. A squeeze that follows
	// within a day of the end of the last lasts twice as long as that. Default: 1h.
	Squeeze caddy.Duration `json:"squeeze,omitempty"`

	// How long a squeeze lasts at most. Default: 24h, or what `squeeze` says if that
	// is longer.
	UpTo caddy.Duration `json:"up_to,omitempty"`
}

const defaultSqueeze = time.Hour

func (p *Pressure) isOn() bool { return p == nil || !p.Disabled }

// rule returns when a network is crowded.
func (p *Pressure) rule() pressure.Rule {
	if p == nil {
		p = new(Pressure)
	}
	return pressure.Rule{
		Fingerprints: cmp.Or(p.Fingerprints, pressure.DefaultFingerprints),
		Within:       cmp.Or(time.Duration(p.Within), pressure.DefaultWithin),
	}
}

// squeeze returns how long a crowded network is squeezed, as a ban of the network.
func (p *Pressure) squeeze() *Ban {
	if p == nil {
		p = new(Pressure)
	}
	return &Ban{After: 1, Within: caddy.Duration(leastBan), For: cmp.Or(p.Squeeze, caddy.Duration(defaultSqueeze)), UpTo: p.UpTo}
}

func (p *Pressure) check() error {
	if err := p.rule().Check(); err != nil {
		return err
	}
	if p == nil {
		return nil
	}
	for _, d := range []struct {
		name string
		time.Duration
	}{{"squeeze", time.Duration(p.Squeeze)}, {"up_to", time.Duration(p.UpTo)}} {
		if d.Duration != 0 && (d.Duration < leastBan || d.Duration > reputation.MaxBan) {
			return fmt.Errorf("pressure: %s must be between %v and %v, got %v", d.name, leastBan, wording.Duration(reputation.MaxBan), d.Duration)
		}
	}
	if squeeze := p.squeeze(); p.UpTo != 0 && p.UpTo < squeeze.For {
		return fmt.Errorf("pressure: up_to must be at least as long as squeeze, got %v and %v", time.Duration(p.UpTo), time.Duration(squeeze.For))
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
