package tally

import (
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

// unmarshalDecisionLog reads the option decision_log.
func (a *App) unmarshalDecisionLog(d *caddyfile.Dispenser) error {
	a.DecisionLog = new(DecisionLog)
	words := d.RemainingArgs()
	if len(words) == 0 {
		return nil
	}
	if len(words) != 2 || words[0] != "sample" {
		return d.Errf("decision_log: got %q: expected nothing, or sample and a share of the allowed requests: write decision_log sample 1/100", strings.Join(words, " "))
	}
	n, isShare := strings.CutPrefix(words[1], "1/")
	sample, err := caddyconf.ParseCount(n)
	if !isShare || err != nil || sample < 1 || sample > maxSample {
		return d.Errf("decision_log: sample: must be a share from 1/1 to 1/%d, such as 1/100, got %q", maxSample, words[1])
	}
	a.DecisionLog.Sample = int(sample)
	return nil
}
