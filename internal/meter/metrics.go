package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

var metrics = struct {
	requests  *prometheus.CounterVec
	declined  *prometheus.CounterVec
	decisions *prometheus.CounterVec
	settled   *prometheus.CounterVec
	byMemory  *prometheus.CounterVec
	process   *prometheus.HistogramVec

	wouldRefuse *prometheus.CounterVec
	shadow      *prometheus.CounterVec

	batch    prometheus.Histogram
	latency  prometheus.Histogram
	claims   prometheus.Counter
	swept    prometheus.Counter
	idle     prometheus.Counter
	degraded prometheus.Counter

	regionWrites  prometheus.Counter
	regionErrors  prometheus.Counter
	regionApplied prometheus.Counter
	regionMade    prometheus.Counter

	violations      *prometheus.CounterVec
	bans            prometheus.Counter
	keys            *prometheus.GaugeVec
	statements      *prometheus.GaugeVec
	clients         *prometheus.CounterVec
	squeezes        prometheus.Counter
	underLoad       *prometheus.GaugeVec
	sessions        *prometheus.CounterVec
	refusedSessions *prometheus.CounterVec
	undelivered     prometheus.Counter
}{
	requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_rate_limit_requests_total",
		Help: "Requests that belonged to a zone; zone \"false\" counts those that belonged to none.",
	}, []string{"zone"}),
	declined: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_rate_limit_declined_requests_total",
		Help: "Requests that a zone refused.",
	}, []string{"zone"}),
	decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_rate_limit_decisions_total",
		Help: "Decisions by zone, limit and outcome: allowed, over_limit, blocked, too_costly, abandoned or banned.",
	}, []string{"zone", "limit", "outcome"}),
	wouldRefuse: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_rate_limit_would_refuse_requests_total",
		Help: "Requests that a zone would have refused without shadow.",
	}, []string{"zone"}),
	shadow: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_rate_limit_shadow_decisions_total",
		Help: "Decisions of shadow limits by zone, limit and outcome: allowed or would_refuse.",
	}, []string{"zone", "limit", "outcome"}),
	byMemory: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_rate_limit_decisions_by_memory_total",
		Help: "Requests that memory alone decided, with reduced limits, because the store could not be used or did not answer in time.",
	}, []string{"zone"}),
	settled: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_rate_limit_settled_requests_total",
		Help: "Answered requests of zones that count by status, by whether they counted: true or false.",
	}, []string{"zone", "counted"}),
	process: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "caddy_rate_limit_process_time_seconds",
		Help:    "Time that requests waited for the store; 0 for those that memory decided.",
		Buckets: []float64{0, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1},
	}, []string{"zone"}),
	batch: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "caddy_rate_limit_store_batch_claims",
		Help:    "Claims per transaction of the store.",
		Buckets: prometheus.ExponentialBuckets(1, 4, 7),
	}),
	latency: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "caddy_rate_limit_store_seconds",
		Help:    "Time taken by a transaction of the store.",
		Buckets: prometheus.ExponentialBuckets(.00001, 4, 9),
	}),
	claims: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "caddy_rate_limit_store_claims_total",
		Help: "Claims that the store answered.",
	}),
	swept: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "caddy_rate_limit_swept_rows_total",
		Help: "Expired rows deleted from the store.",
	}),
	idle: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "caddy_rate_limit_idle_keys_total",
		Help: "Keys dropped from memory because nobody asked for them.",
	}),
	degraded: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "caddy_rate_limit_outages_total",
		Help: "Times that the store could not be used.",
	}),
	regionWrites: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "caddy_rate_limit_region_published_rows_total",
		Help: "Counts that were published for other regions.",
	}),
	regionErrors: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "caddy_rate_limit_region_errors_total",
		Help: "Times that counts could not be exchanged with other regions.",
	}),
	regionApplied: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "caddy_rate_limit_region_applied_rows_total",
		Help: "Counts of other machines that said something new.",
	}),
	regionMade: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "caddy_rate_limit_region_new_keys_total",
		Help: "Keys that came to be known by counts of other machines.",
	}),
	violations: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_rate_limit_violations_total",
		Help: "Violations of clients, by reason: over_limit, forged or trap.",
	}, []string{"reason"}),
	bans: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "caddy_rate_limit_bans_total",
		Help: "Bans of clients.",
	}),
	keys: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "caddy_rate_limit_api_keys",
		Help: "API keys in force, by tier.",
	}, []string{"tier"}),
	statements: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "caddy_rate_limit_statements",
		Help: "Statements of operators in force, by action: ban or allow.",
	}, []string{"action"}),
	clients: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_rate_limit_client_decisions_total",
		Help: "Decisions about clients, by what they are known by (session, fingerprint, prefix, api_key or unknown) and outcome.",
	}, []string{"kind", "outcome"}),
	sessions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_rate_limit_sessions_total",
		Help: "Sessions that clients were given: issued for a solved challenge, or renewed.",
	}, []string{"act"}),
	refusedSessions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_rate_limit_refused_sessions_total",
		Help: "Times that a client asked for a session and got none, by reason.",
	}, []string{"reason"}),
	underLoad: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "caddy_rate_limit_zone_applies",
		Help: "Whether a zone with a condition (when) applies: 1 if it does.",
	}, []string{"zone"}),
	undelivered: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "caddy_rate_limit_dropped_notifications_total",
		Help: "Notifications that could not be delivered.",
	}),
	squeezes: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "caddy_rate_limit_squeezes_total",
		Help: "Times that a network was squeezed because too many different clients came from it.",
	}),
}

// SetAPIKeys sets the number of API keys in force. It is 0 for tiers without any, so that alerts
// can use it.
func SetAPIKeys(counts map[string]int, tiers []string) {
	metrics.keys.Reset()
	for _, tier := range tiers {
		metrics.keys.WithLabelValues(tier)
	}
	for tier, n := range counts {
		metrics.keys.WithLabelValues(tier).Set(float64(n))
	}
}

func init() {
	for _, reason := range []reputation.Reason{reputation.OverLimit, reputation.Forged, reputation.Trapped} {
		metrics.violations.WithLabelValues(reason.String()) // starts at 0, so that the first violations are an increase
	}
}

// Batch counts a transaction of a store.
func Batch(claims int, took time.Duration) {
	metrics.batch.Observe(float64(claims))
	metrics.latency.Observe(took.Seconds())
	metrics.claims.Add(float64(claims))
}

// Swept counts rows that were deleted from a store, and keys that were dropped from memory.
func Swept(rows int64, keys int) {
	metrics.swept.Add(float64(rows))
	metrics.idle.Add(float64(keys))
}

// Violation counts a violation of a client.
func Violation(reason reputation.Reason) { metrics.violations.WithLabelValues(reason.String()).Inc() }

// Ban counts a ban of a client.
func Ban() { metrics.bans.Inc() }

// Throttle counts that a network was throttled.
func Throttle() { metrics.squeezes.Inc() }

// Outage counts that a store could not be used.
func Outage() { metrics.degraded.Inc() }

// Published counts the counts published for other regions.
func Published(rows int) { metrics.regionWrites.Add(float64(rows)) }

// Collected counts new counts of other machines, and keys first seen in them.
func Collected(applied, made int) {
	metrics.regionApplied.Add(float64(applied))
	metrics.regionMade.Add(float64(made))
}

// ExchangeFailed counts a failed exchange of counts with other regions.
func ExchangeFailed() { metrics.regionErrors.Inc() }

// SessionIssued counts a session that a client earned.
func SessionIssued() { metrics.sessions.WithLabelValues("issued").Inc() }

// SessionRenewed counts a session that was renewed.
func SessionRenewed() { metrics.sessions.WithLabelValues("renewed").Inc() }

// SessionRefused counts a refused request for a session.
func SessionRefused(reason string) { metrics.refusedSessions.WithLabelValues(reason).Inc() }

// NotificationDropped counts a notification that could not be delivered.
func NotificationDropped() { metrics.undelivered.Inc() }

// SetApplies sets whether a zone with a condition applies.
func SetApplies(zone string, applies bool) {
	value := 0.
	if applies {
		value = 1
	}
	metrics.underLoad.WithLabelValues(zone).Set(value)
}

// SetRules sets how many rules of operators with an action, ban or allow, are in force.
func SetRules(action string, n int) { metrics.statements.WithLabelValues(action).Set(float64(n)) }
