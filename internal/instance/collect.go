package instance

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tally/caddy-tally/internal/names"
	"github.com/caddy-tally/caddy-tally/internal/regions"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// Collectors report the current state of the instances in use.
var Collectors = []prometheus.Collector{
	collector{collectInstances,
		[]*prometheus.Desc{descKeys, descKeysTotal, descEvicted, descAtOnce, descDegraded, descBytes, descClients}},
	collector{collectNetworks,
		[]*prometheus.Desc{descMachines, descRoundTrip, descClockAhead, descServerAhead, descLostWrites, descUnsettled}},
	collector{collectRegions,
		[]*prometheus.Desc{descRegionPolled, descRegionKeys, descRegionUntracked, descRegionLag, descRegionFault}},
}

// collector reports the metrics that collect sends.
type collector struct {
	collect func(chan<- prometheus.Metric)
	descs   []*prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) { c.collect(ch) }

var (
	descKeys = prometheus.NewDesc(names.Metrics+"keys",
		"Keys held in memory, counted once per limit.", nil, nil)
	descKeysTotal = prometheus.NewDesc(names.Metrics+"keys_total", // its name in mholt/caddy-ratelimit
		"The same as caddy_rate_limit_keys. A gauge, whatever its name says.", nil, nil)
	descEvicted = prometheus.NewDesc(names.Metrics+"evicted_keys_total",
		"Keys dropped from memory to make room for others.", nil, nil)
	descAtOnce = prometheus.NewDesc(names.Metrics+"claims_at_once_total",
		"Claims that were granted at once, without a transaction.", nil, nil)
	descDegraded = prometheus.NewDesc(names.Metrics+"degraded",
		"Whether the store can't be used and memory decides (1) or not (0).", nil, nil)
	descClients = prometheus.NewDesc(names.Metrics+"clients",
		"Clients held in memory by the level of their reputation: low, medium, high or critical risk.",
		[]string{"level"}, nil)
	descBytes = prometheus.NewDesc(names.Metrics+"store_bytes",
		"Size of the database and its log.", nil, nil)
)

// collectInstances reports the state of every engine in use.
func collectInstances(ch chan<- prometheus.Metric) {
	var keys, evicted, atOnce, degraded, bytes float64
	var clients [reputation.Levels]float64
	Each(func(inst *Instance) {
		stats := inst.Stats()
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

var (
	descMachines = prometheus.NewDesc(names.Metrics+"store_machines",
		"Processes that use the store on a network.", nil, nil)
	descRoundTrip = prometheus.NewDesc(names.Metrics+"store_round_trip_seconds",
		"How long a call of the store on a network takes, about.", nil, nil)
	descClockAhead = prometheus.NewDesc(names.Metrics+"store_clock_ahead_seconds",
		"How far the clock of this machine is ahead of the time of the store on a network; negative if it is behind.", nil, nil)
	descServerAhead = prometheus.NewDesc(names.Metrics+"store_server_clock_ahead_seconds",
		"How far the clock of the store's server is ahead of that of this machine; negative if it is behind.", nil, nil)
	descLostWrites = prometheus.NewDesc(names.Metrics+"store_lost_writes_total",
		"Times that the store on a network has lost what it had acknowledged.", nil, nil)
	descUnsettled = prometheus.NewDesc(names.Metrics+"store_unsettled_total",
		"Times that it stayed open whether the last calls of the store on a network took effect.", nil, nil)
)

// collectNetworks reports the state of the connection to stores on a network: of several, the slowest
// one, and the losses of all. It reports nothing without such a store.
func collectNetworks(ch chan<- prometheus.Metric) {
	var machines, roundTrip, ahead, server, lost, unsettled float64
	Each(func(inst *Instance) {
		stats := inst.Stats()
		lost += float64(stats.LostWrites)
		unsettled += float64(stats.Unsettled)
		// 0 until a request has needed the store
		if trip := stats.RoundTrip.Seconds(); inst.Settings.Address != "" && trip >= roundTrip {
			machines, roundTrip, ahead = float64(stats.Processes), trip, stats.Ahead.Seconds()
			server = stats.ServerAhead.Seconds()
		}
	})
	if machines == 0 {
		return
	}
	ch <- prometheus.MustNewConstMetric(descMachines, prometheus.GaugeValue, machines)
	ch <- prometheus.MustNewConstMetric(descRoundTrip, prometheus.GaugeValue, roundTrip)
	ch <- prometheus.MustNewConstMetric(descClockAhead, prometheus.GaugeValue, ahead)
	ch <- prometheus.MustNewConstMetric(descServerAhead, prometheus.GaugeValue, server)
	ch <- prometheus.MustNewConstMetric(descLostWrites, prometheus.CounterValue, lost)
	ch <- prometheus.MustNewConstMetric(descUnsettled, prometheus.CounterValue, unsettled)
}

var (
	descRegionPolled = prometheus.NewDesc(names.Metrics+"region_polled_rows",
		"Counts that were collected from other regions the last time.", nil, nil)
	descRegionKeys = prometheus.NewDesc(names.Metrics+"region_keys",
		"Keys in memory whose counts are shared with other regions.", nil, nil)
	descRegionUntracked = prometheus.NewDesc(names.Metrics+"region_untracked_total",
		"Times that a key stayed regional because max_keys are shared already.", nil, nil)
	descRegionLag = prometheus.NewDesc(names.Metrics+"region_lag_seconds",
		"How long ago a region was heard of; of this region, how long ago it last exchanged all counts.",
		[]string{"region"}, nil)
)

var descRegionFault = prometheus.NewDesc(names.Metrics+"region_fault",
	"Whether something keeps a region from counting with this one (1) or not (0): another secret, database or clock, the same_database, or that it is silent.", []string{"region", "fault"}, nil)

// collectRegions reports the state of the exchange with other regions. It reports nothing without an
// exchange.
func collectRegions(ch chan<- prometheus.Metric) {
	var polled, keys, untracked float64
	lags, faults, any := make(map[string]float64), make(map[[2]string]bool), false
	Each(func(inst *Instance) {
		shared := inst.regions.Load()
		if shared == nil {
			return
		}
		any = true
		s := shared.Stats()
		polled += float64(s.Polled)
		keys += float64(s.Keys)
		untracked += float64(s.Untracked)
		for _, n := range s.Regions {
			lags[n.Name] = max(lags[n.Name], n.Lag.Seconds())
			for f := range regions.Faults {
				fault := [2]string{n.Name, f.String()}
				faults[fault] = faults[fault] || slices.Contains(n.Faults, f)
			}
		}
		lags[s.Region] = s.Lag.Seconds()
	})
	if !any {
		return
	}
	ch <- prometheus.MustNewConstMetric(descRegionPolled, prometheus.GaugeValue, polled)
	ch <- prometheus.MustNewConstMetric(descRegionKeys, prometheus.GaugeValue, keys)
	ch <- prometheus.MustNewConstMetric(descRegionUntracked, prometheus.CounterValue, untracked)
	for region, lag := range lags {
		ch <- prometheus.MustNewConstMetric(descRegionLag, prometheus.GaugeValue, lag, region)
	}
	for fault, present := range faults {
		value := 0.0
		if present {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(descRegionFault, prometheus.GaugeValue, value, fault[0], fault[1])
	}
}
