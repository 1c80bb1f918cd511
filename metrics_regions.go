package tally

import "github.com/prometheus/client_golang/prometheus"

// regionCollector reports what is true at the moment of the exchange with other regions. It
// reports nothing where there is none.
type regionCollector struct{}

var (
	descRegionPolled = prometheus.NewDesc("caddy_rate_limit_region_polled_rows",
		"Counts that were collected from other regions the last time.", nil, nil)
	descRegionKeys = prometheus.NewDesc("caddy_rate_limit_region_keys",
		"Keys in memory whose counts are shared with other regions.", nil, nil)
	descRegionUntracked = prometheus.NewDesc("caddy_rate_limit_region_untracked_total",
		"Times that a key stayed regional because max_keys are shared already.", nil, nil)
	descRegionLag = prometheus.NewDesc("caddy_rate_limit_region_lag_seconds",
		"How long ago a region was heard of; of this region, how long ago it last exchanged all counts.", []string{"region"}, nil)
)

// Describe implements prometheus.Collector.
func (regionCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- descRegionPolled
	ch <- descRegionKeys
	ch <- descRegionUntracked
	ch <- descRegionLag
}

// Collect implements prometheus.Collector.
func (regionCollector) Collect(ch chan<- prometheus.Metric) {
	var polled, keys, untracked float64
	lags, any := make(map[string]float64), false
	eachInstance(func(h *instance) {
		shared := h.regions.Load()
		if shared == nil {
			return
		}
		any = true
		s := shared.Stats()
		polled += float64(s.Polled)
		keys += float64(s.Keys)
		untracked += float64(s.Untracked)
		for _, n := range s.Regions {
			lags[n.Region] = max(lags[n.Region], n.Lag.Seconds())
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
}
