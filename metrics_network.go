package tally

import "github.com/prometheus/client_golang/prometheus"

// networkCollector reports how stores on a network are reached. It reports nothing where there
// is none.
type networkCollector struct{}

var (
	descMachines = prometheus.NewDesc("caddy_rate_limit_store_machines",
		"Processes that use the store on a network.", nil, nil)
	descRoundTrip = prometheus.NewDesc("caddy_rate_limit_store_round_trip_seconds",
		"How long a call of the store on a network takes, about.", nil, nil)
	descClockAhead = prometheus.NewDesc("caddy_rate_limit_store_clock_ahead_seconds",
		"How far the clock of this machine is ahead of the time of the store on a network; negative if it is behind.", nil, nil)
	descLostWrites = prometheus.NewDesc("caddy_rate_limit_store_lost_writes_total",
		"Times that the store on a network has lost what it had acknowledged.", nil, nil)
	descUnsettled = prometheus.NewDesc("caddy_rate_limit_store_unsettled_total",
		"Times that it stayed open whether the last calls of the store on a network took effect.", nil, nil)
)

// Describe implements prometheus.Collector.
func (networkCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- descMachines
	ch <- descRoundTrip
	ch <- descClockAhead
	ch <- descLostWrites
	ch <- descUnsettled
}

// Collect implements prometheus.Collector. Of several stores it reports the one that takes
// longest, and the losses of all.
func (networkCollector) Collect(ch chan<- prometheus.Metric) {
	var machines, roundTrip, ahead, lost, unsettled float64
	eachInstance(func(h *instance) {
		stats := h.stats()
		lost += float64(stats.LostWrites)
		unsettled += float64(stats.Unsettled)
		if trip := stats.RoundTrip.Seconds(); trip > roundTrip {
			machines, roundTrip, ahead = float64(stats.Processes), trip, stats.Ahead.Seconds()
		}
	})
	if roundTrip == 0 {
		return
	}
	ch <- prometheus.MustNewConstMetric(descMachines, prometheus.GaugeValue, machines)
	ch <- prometheus.MustNewConstMetric(descRoundTrip, prometheus.GaugeValue, roundTrip)
	ch <- prometheus.MustNewConstMetric(descClockAhead, prometheus.GaugeValue, ahead)
	ch <- prometheus.MustNewConstMetric(descLostWrites, prometheus.CounterValue, lost)
	ch <- prometheus.MustNewConstMetric(descUnsettled, prometheus.CounterValue, unsettled)
}
