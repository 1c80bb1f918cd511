package tally

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// zoneMeter counts the requests of a zone. Its zero value counts nothing.
type zoneMeter struct {
	requests, declined prometheus.Counter
	byMemory           prometheus.Counter
	wouldRefuse        prometheus.Counter    // of a zone with shadow limits
	settled            [2]prometheus.Counter // of requests that didn't count, and that did
	process            prometheus.Observer
}

func (m zoneMeter) request() {
	if m.requests != nil {
		m.requests.Inc()
	}
}

func (m zoneMeter) decline() {
	if m.declined != nil {
		m.declined.Inc()
	}
}

func (m zoneMeter) decideByMemory() {
	if m.byMemory != nil {
		m.byMemory.Inc()
	}
}

// countSettled has the zone count requests of which it is known later whether they count.
func (m *zoneMeter) countSettled(zone string) {
	m.settled = [2]prometheus.Counter{metrics.settled.WithLabelValues(zone, "false"), metrics.settled.WithLabelValues(zone, "true")}
}

// settle counts a request of which it is known whether it counts.
func (m zoneMeter) settle(counts bool) {
	if m.settled[0] == nil {
		return
	}
	if counts {
		m.settled[1].Inc()
	} else {
		m.settled[0].Inc()
	}
}

func (m zoneMeter) waited(d time.Duration) {
	if m.process != nil {
		m.process.Observe(d.Seconds())
	}
}

func newZoneMeter(zone string) zoneMeter {
	return zoneMeter{
		requests: metrics.requests.WithLabelValues(zone),
		declined: metrics.declined.WithLabelValues(zone),
		byMemory: metrics.byMemory.WithLabelValues(zone),
		process:  metrics.process.WithLabelValues(zone),
	}
}

func (m zoneMeter) shadowRefuse() {
	if m.wouldRefuse != nil {
		m.wouldRefuse.Inc()
	}
}

// limitMeter counts the decisions of a limit. Its zero value counts nothing.
type limitMeter struct {
	allowed     prometheus.Counter
	refused     [len(outcomes)]prometheus.Counter // by engine.Reason; of an enforced limit
	wouldRefuse prometheus.Counter                // of a shadow limit
}

func (m limitMeter) allow() {
	if m.allowed != nil {
		m.allowed.Inc()
	}
}

func (m limitMeter) refuse(reason engine.Reason) {
	if c := m.refused[reason]; c != nil {
		c.Inc()
	}
}

func (m limitMeter) shadowRefuse() {
	if m.wouldRefuse != nil {
		m.wouldRefuse.Inc()
	}
}

// outcomes are the label values of the engine's reasons.
var outcomes = [...]string{"allowed", "over_limit", "blocked", "too_costly", "abandoned", "banned"}

func newLimitMeter(zone, limit string) limitMeter {
	m := limitMeter{allowed: metrics.decisions.WithLabelValues(zone, limit, outcomes[0])}
	for i, outcome := range outcomes[1:] {
		m.refused[i+1] = metrics.decisions.WithLabelValues(zone, limit, outcome)
	}
	return m
}

// wouldRefuse is the outcome of a decision by a shadow limit that would have been a refusal.
const wouldRefuse = "would_refuse"

func newShadowMeter(zone, limit string) limitMeter {
	return limitMeter{
		allowed:     metrics.shadow.WithLabelValues(zone, limit, outcomes[0]),
		wouldRefuse: metrics.shadow.WithLabelValues(zone, limit, wouldRefuse),
	}
}

// newMeter returns the meter of a limit.
func (p *policy) newMeter() limitMeter {
	if p.shadow {
		return newShadowMeter(p.zone.Name, p.name)
	}
	return newLimitMeter(p.zone.Name, p.name)
}

// clientMeter counts the decisions about clients of a kind.
type clientMeter struct{ allowed, refused prometheus.Counter }

// clientMeters are those of all kinds, by identity.Kind.
var clientMeters = func() (meters [identity.APIKey + 1]clientMeter) {
	for kind := range meters {
		name := identity.Kind(kind).String()
		meters[kind] = clientMeter{metrics.clients.WithLabelValues(name, "allowed"), metrics.clients.WithLabelValues(name, "refused")}
	}
	return meters
}()

func (m clientMeter) count(d *engine.Decision) {
	switch {
	case d.Allowed:
		m.allowed.Inc()
	case d.Reason != engine.Abandoned:
		m.refused.Inc()
	}
}

// statementMeter counts what statements have decided. Its zero value counts nothing.
type statementMeter struct{ allowed, banned prometheus.Counter }

// statementsZone stands for the operator's statements in the place of a zone, as the label of
// metrics.
const statementsZone = "rules"

func newStatementMeter() statementMeter {
	return statementMeter{
		allowed: metrics.decisions.WithLabelValues(statementsZone, rules.Allow.String(), outcomes[0]),
		banned:  metrics.decisions.WithLabelValues(statementsZone, rules.Ban.String(), outcomes[engine.Banned]),
	}
}
