package config

import (
	"fmt"
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

// most returns how many clients a network may have before it is crowded.
func (p *Pressure) most() int {
	if p == nil || p.Fingerprints == 0 {
		return pressure.DefaultFingerprints
	}
	return p.Fingerprints
}

func (p *Pressure) check() error {
	if n := p.most(); n < 1 || n > pressure.MaxFingerprints {
		return fmt.Errorf("pressure: fingerprints must be between 1 and %d, got %d", pressure.MaxFingerprints, n)
	}
	return nil
}

// pressureRules are the syntax of `pressure`.
func pressureRules(field **Pressure) grammar.Rules {
	p := new(Pressure)
	return offOr("pressure", func(off bool) { *field, p.Disabled = p, off },
		grammar.Block{Check: p.check, Rules: func() grammar.Rules {
			return grammar.Rules{grammar.Line("fingerprints <n>", &p.Fingerprints)}
		}})
}
