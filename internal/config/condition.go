package config

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/load"
	"github.com/caddy-tally/caddy-tally/internal/wording"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// Condition restricts a zone to times of high load, by one of three measures. The condition is met
// when the measure exceeds its bound, and ends when the measure has been below four fifths of the
// bound for ten seconds. Each Caddy process measures its own load.
type Condition struct {
	// The number of requests in `window` to be exceeded, at least 1.
	Requests int64 `json:"requests,omitempty"`

	// The window for `requests`, from 100ms to an hour.
	Window caddy.Duration `json:"window,omitempty"`

	// The zone whose requests are measured. Default: this zone, whether it applies or not.
	Zone string `json:"zone,omitempty"`

	// One in ten of the zone's answers of the last five seconds took longer than this to begin, at
	// least 1ms.
	SlowerThan caddy.Duration `json:"slower_than,omitempty"`

	// The processors of the machine are busy for more than this percentage of the last second, from 1
	// to 99. On Linux only.
	CPU int `json:"cpu,omitempty"`
}

// The bounds of the window of a condition.
const (
	minLoadWindow = 100 * time.Millisecond
	maxLoadWindow = time.Hour
)

// check returns an error if the condition is invalid.
func (c *Condition) check() error {
	window := time.Duration(c.Window)
	switch measures := countTrue(c.Requests != 0 || c.Window != 0 || c.Zone != "", c.SlowerThan != 0, c.CPU != 0); {
	case measures == 0:
		return errors.New("it names no load: write when everyone over 200/1s")
	case measures > 1:
		return errors.New("it has more than one load: write each into a line of its own, of which one is enough")
	case c.SlowerThan != 0 && time.Duration(c.SlowerThan) < time.Millisecond:
		return fmt.Errorf("slower than: must be at least 1ms, got %v", time.Duration(c.SlowerThan))
	case c.CPU != 0 && (c.CPU < 1 || c.CPU > 99):
		return fmt.Errorf("cpu: must be between 1%% and 99%%, got %d%%", c.CPU)
	case c.SlowerThan != 0 || c.CPU != 0:
		return nil
	case c.Requests < 1:
		return fmt.Errorf("requests: must be at least 1, got %d", c.Requests)
	case window < minLoadWindow || window > maxLoadWindow:
		return fmt.Errorf("window: must be from %v to %v, got %v", minLoadWindow,
			wording.Duration(maxLoadWindow), window)
	}
	return nil
}

func countTrue(values ...bool) (n int) {
	for _, b := range values {
		if b {
			n++
		}
	}
	return n
}

// String returns the condition as in a Caddyfile.
func (c *Condition) String() string {
	switch {
	case c.SlowerThan != 0:
		return "upstream slower than " + wording.Duration(time.Duration(c.SlowerThan))
	case c.CPU != 0:
		return fmt.Sprintf("cpu over %d%%", c.CPU)
	case c.Zone != "":
		return fmt.Sprintf("%s over %d/%s", c.Zone, c.Requests, wording.Duration(time.Duration(c.Window)))
	}
	return fmt.Sprintf("everyone over %d/%s", c.Requests, wording.Duration(time.Duration(c.Window)))
}

// loadOf returns the measurements for the zones with a name.
func (c *Compiler) loadOf(zone string) *enforce.Load {
	if c.loads[zone] == nil {
		c.loads[zone] = new(enforce.Load)
	}
	return c.loads[zone]
}

// compileWhen compiles the zone's conditions, and begins to measure the zones that they use.
func (z *zoneCompiler) compileWhen() error {
	for i := range z.When {
		s, err := z.compileCondition(&z.When[i])
		if err != nil {
			return fmt.Errorf("when: %w", err)
		}
		z.run.When = append(z.run.When, s)
	}
	isMeasured := func(other SitedZone) bool {
		return slices.ContainsFunc(other.When,
			func(c Condition) bool { return c.Zone == z.Name || c.Zone == "" && other.Name == z.Name })
	}
	if len(z.When) > 0 || slices.ContainsFunc(z.app.survey.Zones, isMeasured) {
		z.run.Load = z.app.loadOf(z.Name)
	}
	return nil
}

func (z *zoneCompiler) compileCondition(c *Condition) (*load.Switch, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	name, known := z.Name, true
	if c.Zone != "" {
		name, known = c.Zone, slices.ContainsFunc(z.app.survey.Zones,
			func(other SitedZone) bool { return other.Name == c.Zone })
	}
	if !known {
		return nil, fmt.Errorf("there is no zone %q: write the name of one, or everyone for the requests of this one",
			c.Zone)
	}
	s := &load.Switch{Text: c.String()}
	switch measured := z.app.loadOf(name); {
	case c.SlowerThan != 0:
		latency := load.NewLatency(time.Duration(c.SlowerThan))
		measured.Latencies, s.Measure = append(measured.Latencies, latency), latency
	case c.CPU != 0:
		processor, err := load.NewProcessor(float64(c.CPU) / 100)
		if err != nil {
			return nil, fmt.Errorf("cpu: %w", err)
		}
		s.Measure = processor
	default:
		rate := load.NewRate(c.Requests, time.Duration(c.Window))
		measured.Rates, s.Measure = append(measured.Rates, rate), rate
	}
	s.Changed = z.reportLoad(s.Text)
	return s, nil
}

// reportLoad returns a function that reports when a condition of the zone begins and ends.
func (z *zoneCompiler) reportLoad(when string) func(bool, float64) {
	run, log := z.run, z.log
	return func(on bool, measured float64) {
		fields := []zap.Field{zap.String("zone", run.Name), zap.String("when", when), zap.Float64("load", measured)}
		if on {
			log.Info("the zone applies: there is much load", fields...)
		} else {
			log.Info("the load is low again", fields...)
		}
	}
}

// whenRules are the syntax of `when`.
func (z *Zone) whenRules() grammar.Rules {
	c := new(Condition)
	add := func() error {
		if c.Zone == enforce.PerEveryone {
			c.Zone = ""
		}
		z.When = append(z.When, *c)
		return c.check()
	}
	rate := func(words []string) (int, error) {
		l, taken, err := readRate(words)
		c.Requests, c.Window = l.Amount, l.Window
		return taken, err
	}
	return grammar.Rules{
		grammar.Line("when everyone|<zone> over <n>/<duration>", &c.Zone, rate).Repeats().Then(add),
		grammar.Line("when upstream slower than <duration>", &c.SlowerThan).Repeats().Then(add),
		grammar.Line("when cpu over <percent>", percent(&c.CPU, 99)).Repeats().Then(add),
	}
}
