package enforce

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/load"
	"github.com/caddy-tally/caddy-tally/internal/names"
)

// Load has the measurements of a zone's requests, which all zones of its name share.
type Load struct {
	Rates     []*load.Rate
	Latencies []*load.Latency
}

// isUnderLoad measures a request of a zone, and reports whether the zone applies.
func (z *Zone) isUnderLoad(e *Evaluation) bool {
	now := e.Handler.Config.Now()
	if z.Load != nil && !e.forecasts {
		for _, rate := range z.Load.Rates {
			rate.Add(now)
		}
		if len(z.Load.Latencies) > 0 {
			if e.timing == nil {
				e.timing = load.NewTiming(e.Http.Context(), e.Handler.Config.Now)
			}
			e.timing.Measure(z.Load.Latencies...)
		}
	}
	return z.Applies(now)
}

// Applies reports whether the zone applies at a time.
func (z *Zone) Applies(now int64) bool {
	applies := len(z.When) == 0
	for _, s := range z.When { // all of them, since each follows the load
		applies = s.On(now) || applies
	}
	return applies
}

// Now returns the time for counting.
func (t *Tenant) Now() int64 {
	if inst := t.Instance.Load(); inst != nil {
		return inst.Engine.Now()
	}
	return time.Now().UnixNano()
}

// running is the config that has started last, until it is given up.
var running atomic.Pointer[Config]

// inheritLoad makes the config that now runs continue with the load that the one before has measured.
func (cfg *Config) inheritLoad() {
	before := running.Swap(cfg)
	if before == nil || before == cfg {
		return
	}
	inherited := make(map[*Load]bool) // zones of one name share theirs
	for _, z := range cfg.AllZones {
		for _, old := range before.AllZones {
			if z.Name != old.Name {
				continue
			}
			z.inheritSwitches(old)
			if z.Load != nil && old.Load != nil && !inherited[z.Load] {
				inherited[z.Load] = true
				z.Load.inherit(old.Load)
			}
		}
	}
}

func (z *Zone) inheritSwitches(old *Zone) {
	for _, s := range z.When {
		for _, before := range old.When {
			if s.Text == before.Text {
				s.Inherit(before)
			}
		}
	}
}

// inherit continues the rates. All of one window are equal.
func (l *Load) inherit(old *Load) {
	for _, rate := range l.Rates {
		if i := slices.IndexFunc(old.Rates, rate.IsLike); i >= 0 {
			rate.Inherit(old.Rates[i])
		}
	}
}

var descApplies = prometheus.NewDesc(names.Metrics+"zone_applies",
	"Whether a zone with a condition (when) applies: 1 if it does.", []string{"zone"}, nil)

// Collectors report the current state of the instances in use, and of the zones of the running config.
var Collectors = append(slices.Clip(instance.Collectors), conditions{})

// conditions reports which zones apply.
type conditions struct{}

// Describe implements prometheus.Collector.
func (conditions) Describe(ch chan<- *prometheus.Desc) { ch <- descApplies }

// Collect implements prometheus.Collector.
func (conditions) Collect(ch chan<- prometheus.Metric) {
	cfg := running.Load()
	if cfg == nil {
		return
	}
	now, applies := cfg.Now(), make(map[string]float64)
	for _, z := range cfg.AllZones {
		switch {
		case len(z.When) == 0:
		case z.Applies(now):
			applies[z.Name] = 1
		default:
			applies[z.Name] += 0
		}
	}
	for zone, value := range applies {
		ch <- prometheus.MustNewConstMetric(descApplies, prometheus.GaugeValue, value, zone)
	}
}
