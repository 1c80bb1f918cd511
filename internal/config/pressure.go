package config

import (
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/identity/pressure"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// Pressure detects too many different clients in one network: most likely a script that invents a
// new browser for every request. Such a network is throttled: all its unverified clients together
// have half of one client's limits, in every zone that counts per client. Verified clients in it
// are not affected.
type Pressure struct {
	// Throttle no network.
	Disabled bool `json:"disabled,omitempty"`

	// The network is throttled when more than this number of clients that differ in their header
	// fields, not counting their language, arrive within ten minutes, from 1 to 31. Default: 20.
	Fingerprints int `json:"fingerprints,omitempty"`
}

// squeeze is how long a crowded network is throttled, as a ban of the network: an hour, and each time
// within a day of the end twice as long, up to a day.
var squeeze = Ban{After: 1, Within: caddy.Duration(leastBan), For: caddy.Duration(time.Hour)}

func (p *Pressure) isOn() bool { return p == nil || !p.Disabled }

// rule returns when a network is crowded.
func (p *Pressure) rule() pressure.Rule {
	rule := pressure.Rule{Fingerprints: pressure.DefaultFingerprints, Within: pressure.DefaultWithin}
	if p != nil && p.Fingerprints != 0 {
		rule.Fingerprints = p.Fingerprints
	}
	return rule
}

func (p *Pressure) check() error { return p.rule().Check() }

// pressureRules are the syntax of `pressure`.
func pressureRules(field **Pressure) grammar.Rules {
	p := new(Pressure)
	return offOr("pressure", func(off bool) { *field, p.Disabled = p, off },
		grammar.Block{Check: p.check, Rules: func() grammar.Rules {
			return grammar.Rules{grammar.Line("fingerprints <n>", &p.Fingerprints)}
		}})
}
