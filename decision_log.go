package tally

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

// DecisionLog writes a line for each refusal to the logger `http.log.rate_limit`, for
// programs that read logs, such as fail2ban and CrowdSec. The lines hold addresses of
// clients. Where they go, how they are filtered and how long they are kept is configured
// in Caddy's logging.
//
// There are at most 1000 lines a second of each of four kinds: of clients that become
// blocked, of further refusals of clients that are, of requests that a limit with `shadow`
// would refuse, and of allowed requests. What is left out is counted in the next line of
// its kind.
type DecisionLog struct {
	// Also write a line for one in so many allowed requests, chosen at random: 100 means
	// one in a hundred, 1 means all. From 1 to 1000000000. Default: none.
	Sample int `json:"sample,omitempty"`

	run *enforce.DecisionLog
}

const maxSample = 1_000_000_000

// decisionLogger is what Caddy knows the logger by.
type decisionLogger struct{}

// CaddyModule implements caddy.Module.
func (decisionLogger) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.log.rate_limit", New: func() caddy.Module { return decisionLogger{} }}
}

func (l *DecisionLog) provision(ctx caddy.Context) error {
	if l == nil {
		return nil
	}
	if l.Sample < 0 || l.Sample > maxSample {
		return fmt.Errorf("decision_log: sample: must be from 1 to %d, or 0 for none, got %d", maxSample, l.Sample)
	}
	l.run = &enforce.DecisionLog{Sample: l.Sample, Log: ctx.Logger(decisionLogger{})}
	return nil
}
