package tally

import (
	"errors"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// Collectors are kept for the life of the process and registered with the
// registry of each configuration, so that counts go on over reloads. Their
// labels are the names of zones and limits: as many series as the
// configurations have had of them, whatever clients do.
var metrics = struct {
	requests  *prometheus.CounterVec
	declined  *prometheus.CounterVec
	decisions *prometheus.CounterVec
	process   *prometheus.HistogramVec
	batch     prometheus.Histogram
	latency   prometheus.Histogram
	claims    prometheus.Counter
	swept     prometheus.Counter
	idle      prometheus.Counter
	degraded  prometheus.Counter

	violations      *prometheus.CounterVec
	bans            prometheus.Counter
	keys            *prometheus.GaugeVec
	clients         *prometheus.CounterVec
	squeezes        prometheus.Counter
	sessions        *prometheus.CounterVec
	refusedSessions *prometheus.CounterVec
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
	squeezes: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "caddy_rate_limit_squeezes_total",
		Help: "Times that a network was squeezed because too many different clients came from it.",
	}),
}

// countKeys sets how many API keys are in force: of tiers without any, 0, so that
// an alert can be set on it.
func countKeys(set *apikeys.Set, tiers []string) {
	metrics.keys.Reset()
	for _, tier := range tiers {
		metrics.keys.WithLabelValues(tier)
	}
	for tier, n := range set.Tiers() {
		metrics.keys.WithLabelValues(tier).Set(float64(n))
	}
}

func init() {
	for _, reason := range []reputation.Reason{reputation.OverLimit, reputation.Forged, reputation.Trapped} {
		metrics.violations.WithLabelValues(reason.String()) // from 0, so that the first ones are an increase
	}
}

// registerMetrics makes the collectors part of a configuration's registry.
func registerMetrics(registry prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{
		metrics.requests, metrics.declined, metrics.decisions, metrics.process,
		metrics.batch, metrics.latency, metrics.claims, metrics.swept, metrics.idle, metrics.degraded,
		metrics.violations, metrics.bans, metrics.keys, metrics.clients, metrics.squeezes, metrics.sessions, metrics.refusedSessions,
		instanceCollector{}, configCollector{},
	} {
		err := registry.Register(c)
		if already := (prometheus.AlreadyRegisteredError{}); err != nil && !errors.As(err, &already) {
			return err
		}
	}
	return nil
}

// zoneMeter counts the requests of a zone. Its zero value counts nothing.
type zoneMeter struct {
	requests, declined prometheus.Counter
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

func (m zoneMeter) waited(d time.Duration) {
	if m.process != nil {
		m.process.Observe(d.Seconds())
	}
}

func newZoneMeter(zone string) zoneMeter {
	return zoneMeter{
		requests: metrics.requests.WithLabelValues(zone),
		declined: metrics.declined.WithLabelValues(zone),
		process:  metrics.process.WithLabelValues(zone),
	}
}

// limitMeter counts the decisions of a limit. Its zero value counts nothing.
type limitMeter struct {
	allowed prometheus.Counter
	refused [len(outcomes)]prometheus.Counter // by engine.Reason
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

func (m clientMeter) count(d engine.Decision) {
	switch {
	case d.Allowed:
		m.allowed.Inc()
	case d.Reason != engine.Abandoned:
		m.refused.Inc()
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

// configLabels are the labels of a configured limit.
type configLabels struct{ zone, amount, window, ipv4, ipv6 string }

func configured(z *Zone, p *policy) configLabels {
	return configLabels{z.Name, p.legacy, p.Window().String(), strconv.Itoa(z.IPv4Prefix), strconv.Itoa(z.IPv6Prefix)}
}

// liveConfigs holds the limits of the configurations in use.
var liveConfigs = caddy.NewUsagePool()

// configCollector reports the limits of the configurations in use.
type configCollector struct{}

var descConfig = prometheus.NewDesc("caddy_rate_limit_config", "The limits in use, always 1.",
	[]string{"zone", "max_events", "window", "ipv4_prefix", "ipv6_prefix"}, nil)

// Describe implements prometheus.Collector.
func (configCollector) Describe(ch chan<- *prometheus.Desc) { ch <- descConfig }

// Collect implements prometheus.Collector.
func (configCollector) Collect(ch chan<- prometheus.Metric) {
	liveConfigs.Range(func(key, _ any) bool {
		c := key.(configLabels)
		ch <- prometheus.MustNewConstMetric(descConfig, prometheus.GaugeValue, 1, c.zone, c.amount, c.window, c.ipv4, c.ipv6)
		return true
	})
}

// instanceCollector reports what is true at the moment of every engine in use.
type instanceCollector struct{}

var (
	descKeys = prometheus.NewDesc("caddy_rate_limit_keys",
		"Keys held in memory, counted once per limit.", nil, nil)
	descKeysTotal = prometheus.NewDesc("caddy_rate_limit_keys_total", // the name that mholt/caddy-ratelimit has for it
		"The same as caddy_rate_limit_keys. A gauge, whatever its name says.", nil, nil)
	descEvicted = prometheus.NewDesc("caddy_rate_limit_evicted_keys_total",
		"Keys dropped from memory to make room for others.", nil, nil)
	descDegraded = prometheus.NewDesc("caddy_rate_limit_degraded",
		"Whether the store can't be used and memory decides (1) or not (0).", nil, nil)
	descClients = prometheus.NewDesc("caddy_rate_limit_clients",
		"Clients held in memory by the level of their reputation: low, medium, high or critical risk.", []string{"level"}, nil)
	descBytes = prometheus.NewDesc("caddy_rate_limit_store_bytes",
		"Size of the database and its log.", nil, nil)
)

// Describe implements prometheus.Collector.
func (instanceCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- descKeys
	ch <- descKeysTotal
	ch <- descEvicted
	ch <- descDegraded
	ch <- descBytes
	ch <- descClients
}

// Collect implements prometheus.Collector.
func (instanceCollector) Collect(ch chan<- prometheus.Metric) {
	var keys, evicted, degraded, bytes float64
	var clients [reputation.Levels]float64
	eachInstance(func(h *instance) {
		stats := h.stats()
		keys += float64(stats.Keys)
		evicted += float64(stats.Evicted)
		bytes += float64(stats.Store.Bytes)
		for level, n := range stats.Clients {
			clients[level] += float64(n)
		}
		if stats.Degraded {
			degraded = 1
		}
	})
	ch <- prometheus.MustNewConstMetric(descKeys, prometheus.GaugeValue, keys)
	ch <- prometheus.MustNewConstMetric(descKeysTotal, prometheus.GaugeValue, keys)
	ch <- prometheus.MustNewConstMetric(descEvicted, prometheus.CounterValue, evicted)
	ch <- prometheus.MustNewConstMetric(descDegraded, prometheus.GaugeValue, degraded)
	ch <- prometheus.MustNewConstMetric(descBytes, prometheus.GaugeValue, bytes)
	for level, n := range clients {
		ch <- prometheus.MustNewConstMetric(descClients, prometheus.GaugeValue, n, reputation.Level(level).String())
	}
}
