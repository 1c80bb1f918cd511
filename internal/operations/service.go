// Package operations has what operators see of the config that runs, and can do to its clients. The
// command line, the admin endpoint and the dashboard are given it as an [operator.Service].
package operations

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// running is the service of this process. It finds the config that runs with each call.
type running struct {
	config  func() *enforce.Config // returns the config that runs, or nil if there is none
	version string                 // of this module
	started time.Time              // when the process began
}

// New returns the service of this process, of a version. config returns the config that runs,
// or nil if there is none.
func New(config func() *enforce.Config, version string, started time.Time) operator.Service {
	return running{config, version, started}
}

// Status implements operator.Service.
func (s running) Status(context.Context) (operator.Status, error) {
	status := operator.Status{Version: s.version, Started: s.started.UTC(), Stores: instance.Describe()}
	if app := s.config(); app != nil {
		status.Rules = Config{app}.DescribeRules()
		status.History = app.Ledger != nil
		for _, zone := range DescribeZones(app, nil) {
			if zone.Shadow {
				status.Shadow = append(status.Shadow, zone.Name)
			}
			if len(zone.When) > 0 && zone.Applies() {
				status.Loaded = append(status.Loaded, zone.Name)
			}
		}
	}
	return status, nil
}

// Events implements operator.Service.
func (s running) Events(ctx context.Context) (<-chan operator.Event, error) {
	app, err := s.appInUse()
	if err != nil {
		return nil, err
	}
	return app.Watchers.Watch(ctx, app.Totals, app.tag)
}

// Refusals implements operator.Service.
func (s running) Refusals(_ context.Context, zone string) (operator.Refusals, error) {
	app, err := s.appInUse()
	if err != nil {
		return operator.Refusals{}, err
	}
	if _, err := app.zonesNamed(zone); err != nil {
		return operator.Refusals{}, err
	}
	sample := slices.DeleteFunc(app.Watchers.Recent(time.Now()), func(s enforce.SampledRefusal) bool { return zone != "" && s.Zone != zone })
	return operator.Refusals{
		Sampled: len(sample), Latest: enforce.LatestOf(sample, app.tag),
		Paths:  enforce.SharesOf(sample, func(s enforce.SampledRefusal) string { return s.Path }),
		Agents: enforce.SharesOf(sample, func(s enforce.SampledRefusal) string { return cmp.Or(s.Agent, "none") }),
	}, nil
}

// tag returns the tag of a key, or "" while there is no instance.
func (a Config) tag(key string) string {
	if h := a.Instance.Load(); h != nil {
		return h.Names.Tag(key)
	}
	return ""
}

// Interface guards
var _ operator.Service = running{}

// Config is the config that runs, as operators see it.
type Config struct{ *enforce.Config }
