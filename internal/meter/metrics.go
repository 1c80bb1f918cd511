package meter

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tally/caddy-tally/internal/names"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// collectors are all metrics, for [Register].
var collectors []prometheus.Collector

// collected adds metrics to them.
func collected[C prometheus.Collector](c C) C {
	collectors = append(collectors, c)
	return c
}

func newCounters(name, help string, labels ...string) *prometheus.CounterVec {
	return collected(prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

func newCounter(name, help string) prometheus.Counter {
	return collected(prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

func newGauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return collected(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

var (
	received = newCounter(names.Metrics+"received_requests_total",
		"Requests that came to a handler, each counted once, however many handlers and zones see it.")
	notLetIn = newCounters(names.Metrics+"not_let_in_requests_total",
		"Requests that a handler didn't let in, each counted once, by reason.", "reason")
	wouldNotLet = newCounter(names.Metrics+"would_not_let_in_requests_total",
		"Requests that shadow limits would have refused, each counted once.")
	requests = newCounters(names.Metrics+"requests_total",
		"Requests that belonged to a zone; zone \"false\" counts those that belonged to none.", "zone")
	declined  = newCounters(names.Metrics+"declined_requests_total", "Requests that a zone refused.", "zone")
	decisions = newCounters(names.Metrics+"decisions_total",
		"Decisions by zone, limit and outcome: allowed, over_limit, blocked, too_costly, abandoned or banned.", "zone",
		"limit", "outcome")
	wouldRefuse = newCounters(names.Metrics+"would_refuse_requests_total",
		"Requests that a zone would have refused without shadow.", "zone")
	shadow = newCounters(names.Metrics+"shadow_decisions_total",
		"Decisions of shadow limits by zone, limit and outcome: allowed or would_refuse.", "zone", "limit", "outcome")
	byMemory = newCounters(names.Metrics+"decisions_by_memory_total", "Requests that memory alone decided, with reduced limits, because the store could not be used or did not answer in time.", "zone")
	settled  = newCounters(names.Metrics+"settled_requests_total",
		"Answered requests of zones that count by status, by whether they counted: true or false.", "zone", "counted")
	processTime = collected(prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    names.Metrics + "process_time_seconds",
		Help:    "Time that requests waited for the store; 0 for those that memory decided.",
		Buckets: []float64{0, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1},
	}, []string{"zone"}))
	batchClaims = collected(prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: names.Metrics + "store_batch_claims", Help: "Claims per transaction of the store.",
		Buckets: prometheus.ExponentialBuckets(1, 4, 7),
	}))
	storeTime = collected(prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: names.Metrics + "store_seconds", Help: "Time taken by a transaction of the store.",
		Buckets: prometheus.ExponentialBuckets(.00001, 4, 9),
	}))
	storeClaims = newCounter(names.Metrics+"store_claims_total", "Claims that the store answered.")
	sweptRows   = newCounter(names.Metrics+"swept_rows_total", "Expired rows deleted from the store.")
	idleKeys    = newCounter(names.Metrics+"idle_keys_total",
		"Keys dropped from memory because nobody asked for them.")
	outages      = newCounter(names.Metrics+"outages_total", "Times that the store could not be used.")
	regionWrites = newCounter(names.Metrics+"region_published_rows_total",
		"Counts that were published for other regions.")
	regionErrors = newCounters(names.Metrics+"region_errors_total",
		"Times that counts could not be exchanged with other regions, by what failed: open, meet, publish or collect.", "step")
	regionApplied = newCounter(names.Metrics+"region_applied_rows_total",
		"Counts of other machines that said something new.")
	regionMade = newCounter(names.Metrics+"region_new_keys_total",
		"Keys that came to be known by counts of other machines.")
	failingLists = collected(
		prometheus.NewGauge(prometheus.GaugeOpts{Name: names.Metrics + "failing_block_lists",
			Help: "Block lists that can't be read at present."}))
	violations = newCounters(names.Metrics+"violations_total",
		"Violations of clients, by reason: over_limit, forged or trap.", "reason")
	bans         = newCounter(names.Metrics+"bans_total", "Bans of clients.")
	apiKeys      = newGauges(names.Metrics+"api_keys", "API keys in force, by tier.", "tier")
	rulesInForce = newGauges(names.Metrics+"statements",
		"Rules of operators and block lists in force, by action: ban or allow.", "action")
	clientDecisions = newCounters(names.Metrics+"client_decisions_total", "Decisions about clients, by what they are known by (session, fingerprint, prefix, api_key or unknown) and outcome.", "kind", "outcome")
	challenges      = newCounter(names.Metrics+"challenges_total", "Pages with a challenge that clients were shown.")
	sessions        = newCounters(names.Metrics+"sessions_total",
		"Sessions that clients were given: issued for a solved challenge, or renewed.", "act")
	refusedSessions = newCounters(names.Metrics+"refused_sessions_total",
		"Times that a client asked for a session and got none, by reason.", "reason")
	undelivered = newCounter(names.Metrics+"dropped_notifications_total",
		"Notifications that could not be delivered.")
	squeezes = newCounter(names.Metrics+"squeezes_total",
		"Times that a network was squeezed because too many different clients came from it.")
)

// SetAPIKeys sets the number of API keys in force. It is 0 for tiers without any, so that alerts
// can use it.
func SetAPIKeys(counts map[string]int, tiers []string) {
	apiKeys.Reset()
	for _, tier := range tiers {
		apiKeys.WithLabelValues(tier)
	}
	for tier, n := range counts {
		apiKeys.WithLabelValues(tier).Set(float64(n))
	}
}

func init() {
	for _, reason := range []reputation.Reason{reputation.OverLimit, reputation.Forged, reputation.Trapped} {
		violations.WithLabelValues(reason.String()) // starts at 0, so that the first violations are an increase
	}
}

// Batch counts a transaction of a store.
func Batch(claims int, took time.Duration) {
	batchClaims.Observe(float64(claims))
	storeTime.Observe(took.Seconds())
	storeClaims.Add(float64(claims))
}

// Swept counts rows that were deleted from a store, and keys that were dropped from memory.
func Swept(rows int64, keys int) {
	sweptRows.Add(float64(rows))
	idleKeys.Add(float64(keys))
}

// Violation counts a violation of a client.
func Violation(reason reputation.Reason) { violations.WithLabelValues(reason.String()).Inc() }

// Ban counts a ban of a client.
func Ban() { bans.Inc() }

// Throttle counts that a network was throttled.
func Throttle() { squeezes.Inc() }

// Outage counts that a store could not be used.
func Outage() { outages.Inc() }

// Published counts the counts published for other regions.
func Published(rows int) { regionWrites.Add(float64(rows)) }

// Collected counts new counts of other machines, and keys first seen in them.
func Collected(applied, made int) {
	regionApplied.Add(float64(applied))
	regionMade.Add(float64(made))
}

// ExchangeFailed counts a failed exchange of counts with other regions, by its step.
func ExchangeFailed(step string) { regionErrors.WithLabelValues(step).Inc() }

// ChallengeShown counts a page with a challenge.
func ChallengeShown() { challenges.Inc() }

// Challenges returns what became of challenges since the process began.
func Challenges() operator.Challenges {
	c := operator.Challenges{Shown: counter{challenges}.value(), Solved: counterOf(sessions, "issued").value(),
		Wrong: rejected.Load()}
	c.GivenUp = max(c.Shown-c.Solved-c.Wrong, 0)
	return c
}

// SessionIssued counts a session that a client earned.
func SessionIssued() { sessions.WithLabelValues("issued").Inc() }

// SessionRenewed counts a session that was renewed.
func SessionRenewed() { sessions.WithLabelValues("renewed").Inc() }

// SessionRefused counts a refused request for a session.
func SessionRefused(reason string) { refusedSessions.WithLabelValues(reason).Inc() }

// SolutionRejected counts a wrong solution, for which its client got no session.
func SolutionRejected(reason string) {
	SessionRefused(reason)
	rejected.Add(1)
}

var rejected atomic.Int64 // wrong solutions

// NotificationDropped counts a notification that could not be delivered.
func NotificationDropped() { undelivered.Inc() }

// NotificationsDropped returns the number of those.
func NotificationsDropped() int64 { return counter{undelivered}.value() }

// SetFailingLists sets how many block lists can't be read at present.
func SetFailingLists(n int) { failingLists.Set(float64(n)) }

// SetRules sets how many rules of operators with an action, ban or allow, are in force.
func SetRules(action string, n int) { rulesInForce.WithLabelValues(action).Set(float64(n)) }
