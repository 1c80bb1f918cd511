package meter

import (
	"errors"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tally/caddy-tally/internal/names"
)

// Register registers the collectors, and others, with a configuration's registry.
func Register(registry prometheus.Registerer, others ...prometheus.Collector) error {
	for _, c := range slices.Concat(others, collectors) {
		err := registry.Register(c)
		if already := (prometheus.AlreadyRegisteredError{}); err != nil && !errors.As(err, &already) {
			return err
		}
	}
	return nil
}

// Config are the labels of a configured limit.
type Config struct{ Zone, Amount, Window, IPv4, IPv6 string }

// configs holds the limits of the configurations in use.
var configs = caddy.NewUsagePool()

// Use reports the limit as one in use, until [Config.Release] was called as often.
func (c Config) Use() { configs.LoadOrStore(c, c) }

// Release undoes Use.
func (c Config) Release() { _, _ = configs.Delete(c) } // returns no error

// configCollector reports the limits of the configurations in use.
type configCollector struct{}

var _ = collected(configCollector{})

var descConfig = prometheus.NewDesc(names.Metrics+"config", "The limits in use, always 1.",
	[]string{"zone", "max_events", "window", "ipv4_prefix", "ipv6_prefix"}, nil)

// Describe implements prometheus.Collector.
func (configCollector) Describe(ch chan<- *prometheus.Desc) { ch <- descConfig }

// Collect implements prometheus.Collector.
func (configCollector) Collect(ch chan<- prometheus.Metric) {
	configs.Range(func(key, _ any) bool {
		c := key.(Config)
		ch <- prometheus.MustNewConstMetric(descConfig, prometheus.GaugeValue, 1, c.Zone, c.Amount, c.Window,
			c.IPv4, c.IPv6)
		return true
	})
}
