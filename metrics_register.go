package tally

import (
	"errors"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// registerMetrics makes the collectors part of a configuration's registry.
func registerMetrics(registry prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{
		metrics.requests, metrics.declined, metrics.decisions, metrics.settled, metrics.byMemory, metrics.wouldRefuse, metrics.shadow, metrics.process,
		metrics.batch, metrics.latency, metrics.claims, metrics.swept, metrics.idle, metrics.degraded,
		metrics.regionWrites, metrics.regionErrors, metrics.regionApplied, metrics.regionMade, regionCollector{}, networkCollector{},
		metrics.violations, metrics.bans, metrics.keys, metrics.statements, metrics.clients, metrics.squeezes, metrics.sessions, metrics.refusedSessions,
		instanceCollector{}, configCollector{},
	} {
		err := registry.Register(c)
		if already := (prometheus.AlreadyRegisteredError{}); err != nil && !errors.As(err, &already) {
			return err
		}
	}
	return nil
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
	descAtOnce = prometheus.NewDesc("caddy_rate_limit_claims_at_once_total",
		"Claims that were granted at once, without a transaction.", nil, nil)
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
	ch <- descAtOnce
	ch <- descDegraded
	ch <- descBytes
	ch <- descClients
}

// Collect implements prometheus.Collector.
func (instanceCollector) Collect(ch chan<- prometheus.Metric) {
	var keys, evicted, atOnce, degraded, bytes float64
	var clients [reputation.Levels]float64
	eachInstance(func(h *instance) {
		stats := h.stats()
		keys += float64(stats.Keys)
		evicted += float64(stats.Evicted)
		atOnce += float64(stats.AtOnce)
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
	ch <- prometheus.MustNewConstMetric(descAtOnce, prometheus.CounterValue, atOnce)
	ch <- prometheus.MustNewConstMetric(descDegraded, prometheus.GaugeValue, degraded)
	ch <- prometheus.MustNewConstMetric(descBytes, prometheus.GaugeValue, bytes)
	for level, n := range clients {
		ch <- prometheus.MustNewConstMetric(descClients, prometheus.GaugeValue, n, reputation.Level(level).String())
	}
}
