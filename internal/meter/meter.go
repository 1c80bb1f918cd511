package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/outcomes"
	"github.com/caddy-tally/caddy-tally/internal/rules"
)

// counter is a Prometheus counter, or none.
type counter struct{ prometheus.Counter }

func counterOf(vec *prometheus.CounterVec, labels ...string) counter {
	return counter{vec.WithLabelValues(labels...)}
}

// Inc adds one.
func (c counter) Inc() {
	if c.Counter != nil {
		c.Counter.Inc()
	}
}

// value returns the count since the process began, so that operators see the same numbers as in
// metrics.
func (c counter) value() int64 {
	var metric dto.Metric
	if c.Counter == nil || c.Write(&metric) != nil {
		return 0
	}
	return int64(metric.GetCounter().GetValue())
}

// Requests counts the requests of handlers, each once. The zero value counts nothing.
type Requests struct {
	Received    counter
	WouldRefuse counter // by a shadow limit of any zone

	notLetIn [Failed + 1]counter // by reason, but the first
}

// Further reasons for not letting a request in, besides those of the engine.
const (
	Denied   = engine.Reason(len(Outcomes)) + iota // its API key or tier is missing or wrong
	Queued                                         // it waits for a place, with a page
	TooEarly                                       // before the handshake
	Failed                                         // there was no decision
)

// NewRequests returns the counters of requests.
func NewRequests() Requests {
	m := Requests{Received: counter{received}, WouldRefuse: counter{wouldNotLet}}
	for i, reason := range append(Outcomes[1:], "denied", "queued", "too_early", "failed") {
		m.notLetIn[i+1] = counterOf(notLetIn, reason)
	}
	return m
}

// NotLetIn counts a request that wasn't let in.
func (r *Requests) NotLetIn(why engine.Reason) { r.notLetIn[why].Inc() }

// IsRefusal reports whether a request that isn't let in for a reason is refused. The others come back
// by themselves, have gone, or failed.
func IsRefusal(why engine.Reason) bool {
	return why != engine.Abandoned && why < Queued
}

// Counts returns the requests since the process began.
func (r *Requests) Counts() operator.Counts {
	c := operator.Counts{Blocked: r.notLetIn[engine.Blocked].value(), Banned: r.notLetIn[engine.Banned].value(),
		WouldRefuse: r.WouldRefuse.value()}
	for why := range r.notLetIn {
		n := r.notLetIn[why].value()
		c.Allowed -= n
		if IsRefusal(engine.Reason(why)) {
			c.Refused += n
		}
	}
	c.Allowed += r.Received.value() // last, so that no request is missing
	return c
}

// Zone counts the requests of a zone. The zero value counts nothing.
type Zone struct {
	Requests    counter
	Declined    counter // refused
	ByMemory    counter // decided by memory alone
	WouldRefuse counter // refused by shadow limits only
	Request     counter // the same, but each request once in all zones

	settled [2]counter // of requests that didn't count, and of those that did
	process prometheus.Observer
}

// NewZone returns the counters of a zone without shadow limits whose requests count on arrival.
func NewZone(zone string) Zone {
	return Zone{
		Requests: counterOf(requests, zone),
		Declined: counterOf(declined, zone),
		ByMemory: counterOf(byMemory, zone),
		process:  processTime.WithLabelValues(zone),
	}
}

// HasShadow makes the zone count requests that shadow limits would refuse.
func (z *Zone) HasShadow(zone string) { z.WouldRefuse = counterOf(wouldRefuse, zone) }

// Settles makes the zone count requests that count by their answer.
func (z *Zone) Settles(zone string) {
	z.settled = [2]counter{counterOf(settled, zone, "false"), counterOf(settled, zone, "true")}
}

// Settle counts a request whose answer determined whether it counts.
func (z *Zone) Settle(counts bool) {
	if counts {
		z.settled[1].Inc()
	} else {
		z.settled[0].Inc()
	}
}

// Waited observes how long a request waited for the store.
func (z *Zone) Waited(d time.Duration) {
	if z.process != nil {
		z.process.Observe(d.Seconds())
	}
}

// Totals returns the number of requests that the zone has refused, except those of banned clients,
// and the number that shadow limits would have refused, since the process began.
func (z *Zone) Totals() (refused, wouldRefuse int64) {
	return z.Declined.value(), z.WouldRefuse.value()
}

// Limit counts the decisions of a limit. The zero value counts nothing.
type Limit struct {
	Allowed     counter
	WouldRefuse counter // of a shadow limit

	refused [len(Outcomes)]counter // by engine.Reason; of an enforced limit
}

// Outcomes are the names of the engine's reasons in metrics and logs.
var Outcomes = [...]string{"allowed", "over_limit", "blocked", "too_costly", "abandoned", "banned"}

// NewLimit returns the counters of an enforced limit.
func NewLimit(zone, limit string) Limit {
	m := Limit{Allowed: counterOf(decisions, zone, limit, Outcomes[0])}
	for i, outcome := range Outcomes[1:] {
		m.refused[i+1] = counterOf(decisions, zone, limit, outcome)
	}
	return m
}

// NewShadow returns the counters of a shadow limit.
func NewShadow(zone, limit string) Limit {
	return Limit{
		Allowed:     counterOf(shadow, zone, limit, Outcomes[0]),
		WouldRefuse: counterOf(shadow, zone, limit, outcomes.WouldRefuse),
	}
}

// Refuse counts a refusal.
func (l *Limit) Refuse(reason engine.Reason) { l.refused[reason].Inc() }

// Counts returns the decisions since the process began.
func (l *Limit) Counts() operator.Counts {
	c := operator.Counts{
		Allowed:     l.Allowed.value(),
		Blocked:     l.refused[engine.Blocked].value(),
		Banned:      l.refused[engine.Banned].value(),
		WouldRefuse: l.WouldRefuse.value(),
	}
	c.Refused = c.Blocked + c.Banned + l.refused[engine.OverLimit].value() + l.refused[engine.TooCostly].value()
	return c
}

// clients are the counters of clients, by [identity.Kind]: allowed and refused ones.
var clients = func() (counters [identity.APIKey + 1][2]counter) {
	for kind := range counters {
		name := identity.Kind(kind).String()
		counters[kind] = [2]counter{counterOf(clientDecisions, name, "allowed"),
			counterOf(clientDecisions, name, "refused")}
	}
	return counters
}()

// Client counts a decision about a client of a kind.
func Client(kind identity.Kind, d *engine.Decision) {
	switch {
	case d.Allowed:
		clients[kind][0].Inc()
	case d.Reason != engine.Abandoned:
		clients[kind][1].Inc()
	}
}

// Rules counts the decisions by operators' rules. The zero value counts nothing.
type Rules struct{ Allowed, Banned counter }

// rulesZone is the zone label of operators' rules in metrics.
const rulesZone = "rules"

// NewRules returns the counters of operators' rules.
func NewRules() Rules {
	return Rules{
		Allowed: counterOf(decisions, rulesZone, rules.Allow.String(), Outcomes[0]),
		Banned:  counterOf(decisions, rulesZone, rules.Ban.String(), Outcomes[engine.Banned]),
	}
}
