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

// Pressure detects too many different clients in one network: most likely a script that invents a
// new browser for every request. Such a network is throttled: all its unverified clients together
// have half of one client's limits, in every zone that counts per client. Verified clients in it
// are not affected.
type Pressure struct {
	// Throttle no network.
	Disabled bool `json:"disabled,omitempty"`

	// The network is throttled when it has more than this number of clients that differ in their
	// header fields, not counting their language, from 1 to 31. Default: 20.
	Fingerprints int `json:"fingerprints,omitempty"`

	// The time within which they must arrive, from 1s to 24h. Default: 10m.
	Within caddy.Duration `json:"within,omitempty"`

	// How long a network is throttled, from 1s to 366 days. If it is throttled again within a day
	// of the end, that lasts twice as long as the previous time. Default: 1h.
	Squeeze caddy.Duration `json:"squeeze,omitempty"`

	// The longest time that a network is throttled. Default: 24h, or the value of `squeeze` if that
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

// squeeze returns how long a crowded network is throttled, as a ban of the network.
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
	return offOrBlock(d, "pressure", &a.Pressure.Disabled, a.Pressure.unmarshalOption, a.Pressure.check)
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
