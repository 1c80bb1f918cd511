// Package local implements the operators' view of the running config, and their actions on its
// clients. The command line, the admin endpoint and the dashboard use it as an [operator.Service].
package local

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/watch"
)

// running is the service of this process. It looks up the running config on each call.
type running struct {
	config  func() *enforce.Config // returns the running config, or nil
	version string                 // of this module
	started time.Time              // the start of the process
}

// New returns the service of this process. version is the module's. config returns the running
// config, or nil if there is none.
func New(config func() *enforce.Config, version string, started time.Time) operator.Service {
	return running{config, version, started}
}

// Status implements operator.Service.
func (r running) Status(ctx context.Context) (operator.Status, error) {
	status := operator.Status{Version: r.version, Started: r.started.UTC(), Stores: instance.Describe()}
	requests := meter.NewRequests()
	status.Requests, status.Challenges, status.Undelivered = requests.Counts(), meter.Challenges(),
		meter.NotificationsDropped()
	if cfg := r.config(); cfg != nil {
		status.Rules = runningConfig{cfg}.describeRules()
		if inst := cfg.Instance.Load(); inst != nil {
			bans, missing := runningConfig{cfg}.conductBans(ctx, inst)
			status.Conduct = &operator.ConductBans{Bans: len(bans), Missing: missing}
			for _, ban := range bans {
				if since := ban.Since; since != nil &&
					(status.Conduct.Last == nil || since.After(*status.Conduct.Last)) {
					status.Conduct.Last = since
				}
			}
		}
		status.History = cfg.Ledger != nil
		status.Advice = adviceOf(cfg)
		for _, zone := range describeZones(cfg, nil) {
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

// TestNotify implements operator.Service.
func (r running) TestNotify(ctx context.Context) ([]operator.Notified, error) {
	app, err := r.appInUse()
	if err != nil {
		return nil, err
	}
	if len(app.Webhooks) == 0 {
		return nil, operator.Errorf(http.StatusNotFound, "no webhook is configured: write notify <url> into the global option rate_limit, such as notify https://ntfy.example.com/alerts")
	}
	results := make([]operator.Notified, len(app.Webhooks))
	var posts sync.WaitGroup
	for i, w := range app.Webhooks {
		posts.Go(func() {
			var err error
			if results[i].Webhook, err = w.Test(ctx, time.Now()); err != nil {
				results[i].Error = err.Error()
			}
		})
	}
	posts.Wait()
	return results, nil
}

// adviceOf returns the advice given about a config, of some kinds if any are named.
func adviceOf(cfg *enforce.Config, kinds ...advice.Kind) (all []operator.Advice) {
	for _, a := range cfg.Advice.All() {
		if len(kinds) > 0 && !slices.Contains(kinds, a.Kind) {
			continue
		}
		all = append(all, operator.Advice{Problem: a.Problem, Write: a.Fix, Zone: a.Zone,
			At: cmp.Or(a.Source, strings.Join(a.Server, " ")), See: a.Kind.See()})
	}
	return all
}

// Events implements operator.Service.
func (r running) Events(ctx context.Context) (<-chan operator.Event, error) {
	app, err := r.appInUse()
	if err != nil {
		return nil, err
	}
	return app.Watchers.Watch(ctx, app.Totals, app.tag)
}

// Refusals implements operator.Service.
func (r running) Refusals(ctx context.Context, q operator.RefusalsQuery) (operator.Refusals, error) {
	app, err := r.appInUse()
	if err != nil {
		return operator.Refusals{}, err
	}
	if _, err := app.zonesNamed(q.Zone); err != nil {
		return operator.Refusals{}, err
	}
	isOf := func(*watch.Request) bool { return true }
	if q.Client != "" {
		sub, err := r.target(ctx, q.Client)
		if err != nil {
			return operator.Refusals{}, err
		}
		isOf = sub.hasSent
	}
	var found []watch.Request
	for _, r := range app.Watchers.Recent(time.Now()) {
		if r.In(q.Zone) && isOf(&r) && r.Matches(q) {
			found = append(found, r)
		}
	}
	return watch.Describe(found, app.tag), nil
}

// tag returns the tag of a key, or "" while there is no instance.
func (cfg runningConfig) tag(key string) string {
	if inst := cfg.Instance.Load(); inst != nil {
		return inst.Names.Tag(key)
	}
	return ""
}

// Interface guards
var _ operator.Service = running{}

// runningConfig is the running config with the methods for operators.
type runningConfig struct{ *enforce.Config }
